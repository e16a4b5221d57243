// The golden tables: what PyTorch 2.4 makes of settings strings, how it rounds requests and prints sizes.

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Config } from '../../lib/allocator/config.js';
import { parseConfig } from '../../lib/allocator/config-parser.js';
import { roundSize } from '../../lib/allocator/rounding.js';
import { ConfigError } from '../../lib/errors.js';
import { formatSize } from '../../lib/units.js';

interface ParsedRow {
  readonly config: string | null;
  readonly ok: boolean;
}

function readTable<T>(name: string): T[] {
  return JSON.parse(readFileSync(new URL(`data/tables/${name}.json`, import.meta.url), 'utf8')) as T[];
}

function inGoldenTerms(config: Config): unknown {
  return {
    max_split_size: Number.isFinite(config.maxSplitSize) ? config.maxSplitSize : -1,
    garbage_collection_threshold: config.garbageCollectionThreshold,
    expandable_segments: config.expandableSegments,
    release_lock_on_malloc: config.releaseLockOnCudaMalloc,
    pinned_use_host_register: config.pinnedUseCudaHostRegister,
    pinned_num_register_threads: config.pinnedNumRegisterThreads,
    roundup_power2_divisions: config.roundupPower2Divisions,
  };
}

describe('settings strings', () => {
  const rows = readTable<ParsedRow>('config-parse');

  it('has rows of both kinds', () => {
    expect(rows.filter(({ ok }) => ok).length).toBeGreaterThan(10);
    expect(rows.filter(({ ok }) => !ok).length).toBeGreaterThan(10);
  });

  it.each(rows.filter(({ ok }) => ok))('accepts $config', ({ config, ok: _, ...parsed }) => {
    expect(inGoldenTerms(parseConfig(config, { dialect: '2.4' }))).toEqual(parsed);
  });

  it.each(rows.filter(({ ok }) => !ok))('refuses $config', ({ config }) => {
    expect(() => parseConfig(config, { dialect: '2.4' })).toThrow(ConfigError);
  });
});

describe('rounding', () => {
  const rows = readTable<{ config: string; sizes: [bytes: number, rounded: number][] }>('rounding');

  it.each(rows)('of requests under "$config"', ({ config, sizes }) => {
    const parsed = parseConfig(config, { dialect: '2.4' });
    // A request of 0 bytes gets no block at all.
    const requests = sizes.filter(([bytes]) => bytes > 0);
    expect(requests.map(([bytes]) => [bytes, roundSize(bytes, parsed)])).toEqual(requests);
  });
});

describe('sizes in messages', () => {
  const rows = readTable<[bytes: number, text: string]>('format-size');

  it(`prints ${rows.length} sizes as PyTorch does`, () => {
    expect(rows.map(([bytes]) => [bytes, formatSize(bytes)])).toEqual(rows);
  });
});
