// What people write to ask about other settings: read, checked and suggested. Must not know the form it is written in, nor how it is answered.

import { DEFAULT_CONFIG } from '../allocator/config.js';
import { optionNames, parseConfig } from '../allocator/config-parser.js';
import { formatConfig } from '../allocator/format-config.js';
import type { PolicyName } from '../allocator/policy.js';
import { conflicts } from '../analysis/conf/settings-check.js';
import { nearestOption, textFaults } from '../analysis/conf/settings-text.js';
import { combine, singleSettings } from '../analysis/tune/settings-space.js';
import { ConfigError, CudallocError } from '../errors.js';
import { GIB, KIB, MIB, parseSize } from '../units.js';

/** As it stands in the form. */
export interface WhatIfDraft {
  readonly conf: string;
  readonly policy: PolicyName;
  /** A size as people write it; empty: no limit. */
  readonly capacity: string;
}

export interface CheckedDraft {
  /** Why the settings are refused; empty: they are not. */
  readonly confFaults: readonly string[];
  /** Accepted, but they contradict each other or do nothing. */
  readonly confWarnings: readonly string[];
  readonly capacityFault: string | null;
  /** Bytes; null: no limit, or refused. */
  readonly capacity: number | null;
}

/** Linear in the text. */
export function checkDraft({ conf, capacity: text }: WhatIfDraft): CheckedDraft {
  let capacity: number | null = null;
  let capacityFault: string | null = null;
  if (text.trim() !== '') {
    try {
      capacity = parseSize(text, 'capacity');
      if (capacity === 0) capacityFault = 'capacity: a device has at least 1 byte';
    } catch (error) {
      if (!(error instanceof CudallocError)) throw error;
      capacityFault = error.message;
    }
  }
  return {
    ...checkConf(conf),
    capacityFault,
    capacity: capacityFault === null ? capacity : null,
  };
}

function checkConf(conf: string): Pick<CheckedDraft, 'confFaults' | 'confWarnings'> {
  try {
    return { confFaults: [], confWarnings: conflicts(parseConfig(conf)) };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const word = error.value === null ? error.key : null;
    const meant = word === null ? null : nearestOption(word, optionNames('current'));
    const refused = meant === null ? error.message : `${error.message}; did you mean ${meant}?`;
    return { confFaults: [refused, ...textFaults(conf).map(({ message }) => message)], confWarnings: [] };
  }
}

/** A size that `parseSize` reads as exactly these bytes, in the largest unit of which it is a whole number. */
export function writeSize(bytes: number): string {
  for (const [unit, name] of [[GIB, 'GiB'] as const, [MIB, 'MiB'] as const, [KIB, 'KiB'] as const])
    if (bytes >= unit && bytes % unit === 0) return `${bytes / unit}${name}`;
  return String(bytes);
}

/**
 * Settings worth trying: none, and every single one, alone and added to those in force, which are left out themselves. Linear in requests.
 * @param requested bytes of each request
 */
export function settingsToTry(requested: Float64Array, inForce: string, policy: PolicyName): string[] {
  const recorded = parseConfig(inForce);
  const found = new Set(['']);
  for (const base of [recorded, DEFAULT_CONFIG])
    for (const setting of singleSettings(requested)) {
      const conf = combine(base, [setting], policy);
      if (conf !== null) found.add(conf);
    }
  found.delete(formatConfig(recorded));
  return [...found];
}
