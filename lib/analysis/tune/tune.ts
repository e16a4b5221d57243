// Searches for the settings under which a workload needs the least memory, by running it. What one candidate is worth is one function; the
// search is a generator of candidates, so that whoever drives it may run them here or in other threads. Must not know threads or files.

import { type Config, DEFAULT_CONFIG } from '../../allocator/config.js';
import { parseConfig } from '../../allocator/config-parser.js';
import { formatConfig } from '../../allocator/format-config.js';
import type { PolicyName } from '../../allocator/policy.js';
import { ROOMY_CAPACITY } from '../replay/snapshot-replay.js';
import { settingEffects } from './setting-effects.js';
import {
  combine,
  EXPANDABLE,
  refinements,
  type Setting,
  type SettingKind,
  segmentSettings,
  singleSettings,
} from './settings-space.js';
import { type Candidate, smallestCapacity } from './smallest-capacity.js';
import type { Workload, WorkloadOutcome } from './workload.js';

/** The figures of one run. Snake case: printed as they are. */
export interface RunFigures {
  readonly peak_reserved: number;
  readonly retries: number;
  /** Segments, or maps into expandable ones, made in the whole run. */
  readonly segments: number;
  readonly driver_calls: number;
}

/** What a workload makes of some settings. Bytes. `retries`, `segments`, `driver_calls`: with the given capacity, else with room for everything. */
export interface TunedSetting extends RunFigures {
  readonly conf: string;
  readonly policy: PolicyName;
  /** Null where it does not survive at any capacity. */
  readonly smallest_capacity: number | null;
  /** With room for everything. */
  readonly peak_reserved: number;
  /** At the given capacity; null when none was given. */
  readonly survives: boolean | null;
  /** The run at the smallest capacity. */
  readonly at_smallest: RunFigures | null;
  /** Whether any of the settings acted in any of these runs. */
  readonly triggered: boolean;
  /** Why settings that did not act did not. */
  readonly reason: string | null;
}

/**
 * Runs a workload under some settings: with room for everything, at the smallest capacity it survives, at a given one. About 17 runs.
 * @throws ConfigError for settings that are refused
 */
export function evaluateSettings(workload: Workload, candidate: Candidate, capacity: number | null): TunedSetting {
  const { conf, policy } = candidate;
  const config = parseConfig(conf);
  const roomy = workload.run({ conf, policy, capacity: ROOMY_CAPACITY, stopAtOutOfMemory: true });
  const smallest = smallestCapacity(workload, candidate, { outcome: roomy, limit: ROOMY_CAPACITY });
  const given = capacity === null ? null : workload.run({ conf, policy, capacity });
  const outcomes = [roomy, smallest?.outcome, given].filter((outcome) => outcome !== null && outcome !== undefined);
  return {
    conf,
    policy,
    smallest_capacity: smallest?.capacity ?? null,
    ...figures(given ?? roomy),
    peak_reserved: roomy.peakReserved,
    survives: given?.survived ?? null,
    at_smallest: smallest === null ? null : figures(smallest.outcome),
    ...settingEffects({ config, sizes: workload.sizes, outcomes }),
  };
}

function figures({ peakReserved, retries, segments, driverCalls }: WorkloadOutcome): RunFigures {
  return { peak_reserved: peakReserved, retries, segments, driver_calls: driverCalls };
}

/** Best first: survives the given capacity, needs the smallest one, reserves least, calls the driver least, is the shortest to write. */
export function compareSettings(a: TunedSetting, b: TunedSetting): number {
  return (
    Number(b.survives ?? false) - Number(a.survives ?? false) ||
    (a.smallest_capacity ?? Number.MAX_VALUE) - (b.smallest_capacity ?? Number.MAX_VALUE) ||
    a.peak_reserved - b.peak_reserved ||
    a.driver_calls - b.driver_calls ||
    a.conf.length - b.conf.length ||
    // Not by locale: the order is the same everywhere.
    Number(a.conf > b.conf) - Number(a.conf < b.conf) ||
    Number(a.policy > b.policy) - Number(a.policy < b.policy)
  );
}

export interface SearchOptions {
  /** Default: `pytorch`. */
  readonly policies?: readonly PolicyName[];
  /** Settings strings that are tried in any case. */
  readonly extra?: readonly string[];
}

/** Combinations are left out for workloads of more requests than this, the second step of them at a quarter of it. */
const MANY_REQUESTS = 4_000_000;

/**
 * The search as batches of candidates; it is given their values and returns all of them, best first. First no settings, the recorded and
 * the extra ones and every single one; then pairs of what helped, and the best limits refined; then the best with what else helped.
 */
export function* searchSettings(
  workload: Pick<Workload, 'sizes' | 'conf'>,
  options: SearchOptions = {},
): Generator<readonly Candidate[], TunedSetting[], readonly TunedSetting[]> {
  const { policies = ['pytorch'], extra = [] } = options;
  const found: TunedSetting[] = [];
  for (const policy of policies) {
    const search = new PolicySearch(workload, policy);
    for (const step of [() => search.first(extra), () => search.pairs(), () => search.extensions()]) {
      const batch = step();
      if (batch.length > 0) search.take(yield batch);
    }
    found.push(...search.found);
  }
  return found.sort(compareSettings);
}

/** The search without threads. */
export function tune(workload: Workload, options: SearchOptions & { readonly capacity?: number } = {}): TunedSetting[] {
  const search = searchSettings(workload, options);
  let step = search.next();
  while (step.done !== true) {
    step = search.next(step.value.map((candidate) => evaluateSettings(workload, candidate, options.capacity ?? null)));
  }
  return step.value;
}

class PolicySearch {
  readonly found: TunedSetting[] = [];
  readonly #workload: Pick<Workload, 'sizes' | 'conf'>;
  readonly #policy: PolicyName;
  readonly #recorded: Config;
  readonly #tried = new Set<string>();
  /** The single settings by their string, on no other settings. */
  readonly #singles = new Map<string, Setting>();

  constructor(workload: Pick<Workload, 'sizes' | 'conf'>, policy: PolicyName) {
    this.#workload = workload;
    this.#policy = policy;
    this.#recorded = parseConfig(workload.conf);
  }

  first(extra: readonly string[]): Candidate[] {
    for (const setting of singleSettings(this.#workload.sizes)) {
      const conf = combine(DEFAULT_CONFIG, [setting], this.#policy);
      if (conf !== null) this.#singles.set(conf, setting);
    }
    const given = [this.#workload.conf, ...extra].map((conf) => formatConfig(parseConfig(conf)));
    return this.#untried(['', ...given, ...this.#singles.keys()]);
  }

  /** Two settings of different kinds that both help; the recorded settings with each; expandable segments with each segment size. */
  pairs(): Candidate[] {
    if (this.#workload.sizes.length > MANY_REQUESTS) return [];
    const winners = this.#winners();
    const pairs = winners.flatMap((a, at) => winners.slice(at + 1).map((b) => [a, b]));
    const confs = pairs.map((pair) => combine(DEFAULT_CONFIG, pair, this.#policy));
    confs.push(...winners.map((setting) => combine(this.#recorded, [setting], this.#policy)));
    for (const segment of segmentSettings()) confs.push(combine(DEFAULT_CONFIG, [EXPANDABLE, segment], this.#policy));
    for (const refined of winners.flatMap(refinements)) confs.push(combine(DEFAULT_CONFIG, [refined], this.#policy));
    return this.#untried(confs);
  }

  /** The best three so far, with each setting that helps. */
  extensions(): Candidate[] {
    if (this.#workload.sizes.length > MANY_REQUESTS / 4) return [];
    const best = [...this.found].sort(compareSettings).slice(0, 3);
    const winners = this.#winners();
    return this.#untried(
      best.flatMap(({ conf }) => winners.map((setting) => combine(parseConfig(conf), [setting], this.#policy))),
    );
  }

  take(values: readonly TunedSetting[]): void {
    this.found.push(...values);
  }

  /** Of each kind the best single setting, where it is better than none. */
  #winners(): Setting[] {
    const none = this.found.find(({ conf }) => conf === '');
    const best = new Map<SettingKind, Setting>();
    for (const value of [...this.found].sort(compareSettings)) {
      const setting = this.#singles.get(value.conf);
      if (setting === undefined || best.has(setting.kind) || none === undefined) continue;
      if (value.triggered && needsLess(value, none)) best.set(setting.kind, setting);
    }
    return [...best.values()];
  }

  #untried(confs: readonly (string | null)[]): Candidate[] {
    const candidates: Candidate[] = [];
    for (const conf of confs) {
      if (conf === null || this.#tried.has(conf)) continue;
      this.#tried.add(conf);
      candidates.push({ conf, policy: this.#policy });
    }
    return candidates;
  }
}

/** Whether settings need less memory than others: a smaller device, or less of the same. */
export function needsLess(a: TunedSetting, b: TunedSetting): boolean {
  const smallest = (value: TunedSetting): number => value.smallest_capacity ?? Number.MAX_VALUE;
  return smallest(a) < smallest(b) || (smallest(a) === smallest(b) && a.peak_reserved < b.peak_reserved);
}
