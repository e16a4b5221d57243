// Which settings are worth trying for a workload. Must not know how they are tried.

import { type Config, completeConfig, DEFAULT_CONFIG } from '../../allocator/config.js';
import { formatConfig } from '../../allocator/format-config.js';
import type { PolicyName } from '../../allocator/policy.js';
import { SMALL_SIZE } from '../../allocator/rounding.js';
import { ConfigError } from '../../errors.js';
import { MIB } from '../../units.js';

/** Options that stand for one idea; a combination has at most one of a kind. */
export type SettingKind = 'expandable' | 'split' | 'rounding' | 'collection' | 'segment';

/** A change of settings. */
export interface Setting {
  readonly kind: SettingKind;
  readonly change: Partial<Config>;
}

export const EXPANDABLE: Setting = { kind: 'expandable', change: { expandableSegments: true } };

/** Instead of a split limit or collection, with which it does not go together. */
export const EXPANDABLE_ALONE: Setting = {
  kind: 'expandable',
  change: { expandableSegments: true, maxSplitSize: DEFAULT_CONFIG.maxSplitSize, garbageCollectionThreshold: 0 },
};

const SPLIT_LIMITS_MIB = [21, 32, 64, 128, 256, 512];
const ROUNDINGS = [2, 4, 8, 16];
const THRESHOLDS = [0.6, 0.8, 0.9];
const SEGMENTS_MIB = [4, 12, 32];
const ACT_ON_PAGES: ReadonlySet<SettingKind> = new Set(['rounding', 'segment']);
/** How many of the workload's own large sizes a limit is set around. */
const OWN_SIZES = 3;

export function splitLimit(mib: number): Setting {
  return { kind: 'split', change: { maxSplitSize: mib * MIB } };
}

/** Collection does nothing without a memory fraction, so the whole device is named as one. */
export function collectionAt(threshold: number): Setting {
  return { kind: 'collection', change: { garbageCollectionThreshold: threshold, perProcessMemoryFraction: 1 } };
}

/** The same divisions for all sizes from `fromMib` on, none below. */
export function rounding(divisions: number, fromMib = 0): Setting {
  const from = fromMib === 0 ? 0 : Math.log2(fromMib);
  const list = DEFAULT_CONFIG.roundupPower2Divisions.map((_, at) => (at < from ? 1 : divisions));
  return { kind: 'rounding', change: { roundupPower2Divisions: list } };
}

/** Each single setting that may help with requests of these sizes. */
export function singleSettings(sizes: Float64Array): Setting[] {
  const largest = sizes.reduce((max, size) => Math.max(max, size), 0);
  const limits = new Set([...SPLIT_LIMITS_MIB, ...ownLimits(sizes)]);
  const settings = [EXPANDABLE, ...[...limits].sort((a, b) => a - b).map(splitLimit)];
  settings.push(...ROUNDINGS.map((divisions) => rounding(divisions)));
  // Where it costs little: in large blocks, whose remainders are what pins segments.
  if (largest >= 32 * MIB) settings.push(rounding(4, 16), rounding(8, 32));
  settings.push(...THRESHOLDS.map(collectionAt));
  if (sizes.some((size) => size > SMALL_SIZE)) settings.push(...segmentSettings());
  return settings;
}

export function segmentSettings(): Setting[] {
  return SEGMENTS_MIB.map((mib) => ({ kind: 'segment', change: { largeSegmentSize: mib * MIB } }));
}

/** Limits just below and above the sizes that most bytes are asked for in: one makes such requests oversize, the other does not. */
function ownLimits(sizes: Float64Array): number[] {
  const bytesBySize = new Map<number, number>();
  for (const size of sizes) {
    if (size <= 21 * MIB) continue;
    const mib = Math.floor(size / MIB);
    bytesBySize.set(mib, (bytesBySize.get(mib) ?? 0) + size);
  }
  const heaviest = [...bytesBySize].sort(([a, x], [b, y]) => y - x || a - b).slice(0, OWN_SIZES);
  return heaviest.flatMap(([mib]) => [mib, mib + 2]);
}

/** Other values near those of a setting that helped. */
export function refinements(setting: Setting): Setting[] {
  const { maxSplitSize, maxNonSplitRounding } = setting.change;
  if (maxSplitSize === undefined) return [];
  const limits = [0.75, 1.5].map((factor) => splitLimit(Math.round((maxSplitSize / MIB) * factor)));
  if (maxNonSplitRounding !== undefined) return limits;
  const roundings = [2, 64].map((mib) => ({
    kind: 'split' as const,
    change: { ...setting.change, maxNonSplitRounding: mib * MIB },
  }));
  return [...limits, ...roundings];
}

/**
 * The settings string of a base with changes; null where they contradict each other, where one would never act (expandable segments are not
 * collected; pages of the policy `paged` know neither segments nor limits), or where reserved memory would grow without end.
 */
export function combine(base: Config, settings: readonly Setting[], policy: PolicyName): string | null {
  if (policy === 'paged' && !settings.every(({ kind }) => ACT_ON_PAGES.has(kind))) return null;
  const { maxNonSplitRounding, largeSegmentSize } = base;
  const follows = maxNonSplitRounding === largeSegmentSize;
  const start: Partial<Config> = Object.fromEntries(
    Object.entries(base).filter(([key]) => !(follows && key === 'maxNonSplitRounding')),
  );
  try {
    const config = completeConfig(Object.assign(start, ...settings.map(({ change }) => change)));
    const pointless = config.expandableSegments && config.garbageCollectionThreshold > 0;
    return pointless || growsWithoutEnd(config, policy) ? null : formatConfig(config);
  } catch (error) {
    if (error instanceof ConfigError) return null;
    throw error;
  }
}

/** With both, PyTorch passes over free blocks of expandable segments that reach the split limit, and takes new memory instead. */
export function growsWithoutEnd(config: Config, policy: PolicyName): boolean {
  return policy === 'pytorch' && config.expandableSegments && Number.isFinite(config.maxSplitSize);
}
