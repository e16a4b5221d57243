// Checks and explains a settings string: where it is wrong, what each option does, which do not go together, and what a PyTorch release makes
// of it. Rests on the parser and on the table of versions; must not know how it is printed.

import type { Config } from '../../allocator/config.js';
import { optionNames, parseConfig } from '../../allocator/config-parser.js';
import { formatConfig } from '../../allocator/format-config.js';
import { ConfigError } from '../../errors.js';
import { SETTING_MEANINGS } from './setting-meanings.js';
import { nearestOption, type SettingsFault, textFaults } from './settings-text.js';
import {
  FIRST_TORCH,
  LIST_OF_DIVISIONS,
  OPTION_VERSIONS,
  type OptionStatus,
  optionStatus,
  optionVersions,
  parseTorchVersion,
  settingsVariable,
  sinceWhen,
  type TorchVersion,
  versionNotes,
} from './torch-versions.js';

/** An option as it stands in the string. Snake case: printed as it is. */
export interface CheckedOption {
  readonly key: string;
  readonly value: string;
  readonly position: number;
  readonly meaning: string;
  /** The PyTorch releases that know it, in words. */
  readonly since: string;
}

/** What one PyTorch release makes of a settings string. */
export interface TorchCheck {
  readonly version: string;
  readonly accepted: OptionStatus;
  readonly options: readonly { readonly key: string; readonly status: OptionStatus; readonly reason: string }[];
  /** Options that the release is known to accept. */
  readonly known: readonly string[];
  readonly variable: string;
  readonly notes: readonly string[];
}

export interface SettingsCheck {
  readonly text: string;
  /** By our parser, and by the release that was asked about unless that was not verified. */
  readonly accepted: boolean;
  /** The string in its shortest form; null when it is refused. */
  readonly conf: string | null;
  readonly faults: readonly SettingsFault[];
  readonly options: readonly CheckedOption[];
  /** Options that contradict each other, or do nothing. */
  readonly warnings: readonly string[];
  readonly torch: TorchCheck | null;
}

/**
 * @param torch a release: `2.1`, `2.1.0+cu121`
 * @throws ConfigError when `torch` is no release since 1.10
 */
export function checkSettings(text: string, options: { readonly torch?: string } = {}): SettingsCheck {
  const parsed = parse(text);
  const given = optionsIn(text);
  const torch = options.torch === undefined ? null : checkTorch(options.torch, given);
  return {
    text,
    accepted: parsed.config !== null && torch?.accepted !== 'refused',
    conf: parsed.config === null ? null : formatConfig(parsed.config),
    faults: parsed.faults,
    options: given.filter(({ key }) => optionNames('current').includes(key)),
    warnings: parsed.config === null ? [] : [...repeated(given), ...conflicts(parsed.config)],
    torch,
  };
}

function parse(text: string): { readonly config: Config | null; readonly faults: readonly SettingsFault[] } {
  try {
    return { config: parseConfig(text), faults: [] };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const faults = textFaults(text);
    const position = error.position ?? 0;
    const word = error.value === null ? error.key : null;
    const meant = word === null ? null : nearestOption(word, optionNames('current'));
    const message = meant === null ? error.message : `${error.message}; did you mean ${meant}?`;
    const explained = faults.some((fault) => Math.abs(fault.position - position) <= 1);
    return { config: null, faults: explained ? faults : [...faults, { position, message }].sort(byPosition) };
  }
}

function byPosition(a: SettingsFault, b: SettingsFault): number {
  return a.position - b.position;
}

/** The keys of a string and their values, as written. In lists stand sizes, which begin with a digit. */
function optionsIn(text: string): CheckedOption[] {
  const keys = [...text.matchAll(/(?<=^|,)\s*([A-Za-z_]\w*)\s*:/g)];
  return keys.map((match, at) => {
    const end = keys[at + 1]?.index ?? text.length;
    const key = match[1] as string;
    const versions = optionVersions(key);
    return {
      key,
      value: text
        .slice(match.index + match[0].length, end)
        .replace(/,\s*$/, '')
        .trim(),
      position: match.index + match[0].indexOf(key),
      meaning: SETTING_MEANINGS[key] ?? '',
      since: versions === undefined ? 'no PyTorch release' : `PyTorch ${sinceWhen(versions)}`,
    };
  });
}

function repeated(options: readonly CheckedOption[]): string[] {
  const seen = new Map<string, number>();
  for (const { key } of options) seen.set(key, (seen.get(key) ?? 0) + 1);
  return [...seen].filter(([, count]) => count > 1).map(([key]) => `${key} stands there twice; the last one holds`);
}

/** Settings that are accepted but contradict each other or do nothing. */
export function conflicts(config: Config): string[] {
  const warnings: string[] = [];
  const { expandableSegments, roundupPower2Divisions } = config;
  const limited = Number.isFinite(config.maxSplitSize);
  const collects = config.garbageCollectionThreshold > 0;
  if (config.backend === 'cudaMallocAsync') {
    warnings.push(
      'backend:cudaMallocAsync ignores the other options; what is said here of them is of the native allocator',
    );
  }
  if (expandableSegments && limited) {
    warnings.push(
      'expandable_segments with max_split_size_mb: PyTorch passes over free blocks above the limit and takes new memory, ' +
        'so that reserved memory can grow without end (pytorch/pytorch#123548); choose one',
    );
  }
  if (collects && config.perProcessMemoryFraction === null) {
    warnings.push(
      'garbage_collection_threshold does nothing without a memory fraction: add per_process_memory_fraction, or call ' +
        'set_per_process_memory_fraction',
    );
  }
  if (collects && expandableSegments) {
    warnings.push(
      'garbage_collection_threshold does nothing with expandable_segments, whose segments are not collected',
    );
  }
  if (!config.hasRoundup && roundupPower2Divisions.some((divisions) => divisions === 1)) {
    warnings.push('roundup_power2_divisions of 1 is off: requests are rounded to 512 bytes as without it');
  }
  if (!limited && config.maxNonSplitRounding !== config.largeSegmentSize) {
    warnings.push('max_non_split_rounding_mb does nothing without max_split_size_mb');
  }
  if (!expandableSegments && config.expandableSegmentsPageSize !== null) {
    warnings.push('expandable_segments_page_size does nothing without expandable_segments:True');
  }
  warnings.push(...config.warnings.filter((warning) => !warning.startsWith('backend')));
  return warnings;
}

function checkTorch(text: string, given: readonly CheckedOption[]): TorchCheck {
  const version = parseTorchVersion(text);
  if (version === null) {
    const why = `"${text}" is no PyTorch release since ${FIRST_TORCH}, the first with settings strings`;
    throw new ConfigError(`--torch: ${why}; write 2.1 or 2.1.0`, { key: 'torch', value: text });
  }
  const name = `${version.major}.${version.minor}`;
  const options = given.map(({ key, value }) => checkOption({ key, value }, version, name));
  const worst = (status: OptionStatus): boolean => options.some((option) => option.status === status);
  const variable = settingsVariable(version);
  return {
    version: name,
    accepted: worst('refused') ? 'refused' : worst('not verified') ? 'not verified' : 'accepted',
    options,
    known: OPTION_VERSIONS.filter((entry) => optionStatus(entry, version) === 'accepted').map(({ option }) => option),
    variable: variable.name,
    notes: [`${variable.name}: ${variable.note}`, ...versionNotes(version, new Set(given.map(({ key }) => key)))],
  };
}

function checkOption(
  { key, value }: { readonly key: string; readonly value: string },
  version: TorchVersion,
  name: string,
): TorchCheck['options'][number] {
  const entry = optionVersions(key);
  if (entry === undefined) return { key, status: 'refused', reason: `${key} is an option of no PyTorch release` };
  const forms = key === 'roundup_power2_divisions' && value.startsWith('[') ? [entry, LIST_OF_DIVISIONS] : [entry];
  for (const form of forms) {
    const status = optionStatus(form, version);
    if (status === 'refused') return { key, status, reason: `${form.option} needs ${sinceWhen(form)}` };
    if (status === 'not verified') {
      return { key, status, reason: `${form.option}: not verified for ${name}; it came with ${sinceWhen(form)}` };
    }
  }
  return { key, status: 'accepted', reason: `known to ${name}` };
}
