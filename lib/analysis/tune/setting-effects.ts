// Whether settings did anything in a run, and if not, why not. Must not know how settings were chosen.

import { type Config, DEFAULT_CONFIG } from '../../allocator/config.js';
import { roundSize, SMALL_SIZE } from '../../allocator/rounding.js';
import { formatSize, MIB } from '../../units.js';
import type { WorkloadOutcome } from './workload.js';

export interface SettingEffects {
  /** Whether any of the settings acted. */
  readonly triggered: boolean;
  /** Of the settings that did not: why, one sentence each; null when all acted. */
  readonly reason: string | null;
}

interface Runs {
  readonly config: Config;
  /** Requested bytes of every allocation. */
  readonly sizes: Float64Array;
  readonly outcomes: readonly WorkloadOutcome[];
}

/** Requests from this size on get a segment of their own. */
const OWN_SEGMENT = 10 * MIB;

/** Null when the setting acted, else why it did not. */
type Check = (runs: Runs) => string | null;

const INERT: Check = () => 'it concerns host memory or locking, not what is placed where on the device';

const CHECKS: { readonly [K in keyof Config]?: readonly [name: string, check: Check] } = {
  backend: ['backend', () => "another allocator of PyTorch's, which is not simulated here"],
  expandableSegments: [
    'expandable_segments',
    (runs) => (some(runs, ['num_device_alloc']) ? null : 'nothing was asked from the device'),
  ],
  expandableSegmentsPageSize: ['expandable_segments_page_size', needsExpandable],
  maxSplitSize: ['max_split_size_mb', splitLimit],
  maxNonSplitRounding: ['max_non_split_rounding_mb', nonSplitRounding],
  roundupPower2Divisions: ['roundup_power2_divisions', roundup],
  garbageCollectionThreshold: ['garbage_collection_threshold', collection],
  perProcessMemoryFraction: ['per_process_memory_fraction', fraction],
  largeSegmentSize: ['large_segment_size_mb', segmentSizes],
  throwOnCudaMallocOom: ['throw_on_cudamalloc_oom', () => 'the memory fraction is always checked first here'],
  graphCaptureRecordStreamReuse: ['graph_capture_record_stream_reuse', () => 'it concerns the capture of CUDA graphs'],
  releaseLockOnCudaMalloc: ['release_lock_on_cudamalloc', INERT],
  pinnedUseCudaHostRegister: ['pinned_use_cuda_host_register', INERT],
  pinnedNumRegisterThreads: ['pinned_num_register_threads', INERT],
  pinnedMaxRegisterThreads: ['pinned_max_register_threads', INERT],
  pinnedReserveSegmentSize: ['pinned_reserve_segment_size_mb', INERT],
  pinnedUseBackgroundThreads: ['pinned_use_background_threads', INERT],
};

/** What the settings that differ from their defaults did in these runs. Linear in the sizes where requests are rounded otherwise. */
export function settingEffects(runs: Runs): SettingEffects {
  const reasons: string[] = [];
  let acted = 0;
  for (const [key, [name, check]] of Object.entries(CHECKS)) {
    if (!differs(runs.config, key as keyof Config)) continue;
    const reason = check(runs);
    if (reason === null) acted++;
    else reasons.push(`${name}: ${reason}`);
  }
  return { triggered: acted > 0, reason: reasons.length === 0 ? null : reasons.join('; ') };
}

function differs(config: Config, key: keyof Config): boolean {
  if (key === 'roundupPower2Divisions') return config.roundupPower2Divisions.some((divisions) => divisions > 0);
  if (key === 'maxNonSplitRounding') return config.maxNonSplitRounding !== config.largeSegmentSize;
  // The whole device is named for the collection's sake, which needs a fraction.
  if (key === 'perProcessMemoryFraction' && config[key] === 1) return config.garbageCollectionThreshold === 0;
  return config[key] !== DEFAULT_CONFIG[key];
}

function some({ outcomes }: Runs, keys: readonly string[]): boolean {
  return outcomes.some(({ stats }) => keys.some((key) => (stats[key] ?? 0) > 0));
}

function needsExpandable(runs: Runs): string | null {
  if (!runs.config.expandableSegments) return 'expandable_segments is off';
  return some(runs, ['num_device_alloc']) ? null : 'nothing was asked from the device';
}

function splitLimit(runs: Runs): string | null {
  if (some(runs, ['oversize_segments.allocated', 'oversize_allocations.allocated'])) return null;
  const largest = runs.sizes.reduce((max, size) => Math.max(max, size), 0);
  const limit = formatSize(runs.config.maxSplitSize);
  return `no request reaches the limit of ${limit}; the largest is ${formatSize(largest)}`;
}

function nonSplitRounding(runs: Runs): string | null {
  if (!Number.isFinite(runs.config.maxSplitSize)) return 'it needs max_split_size_mb: none is set';
  return some(runs, ['oversize_allocations.allocated'])
    ? null
    : 'no request is as large as max_split_size_mb, so no oversize block is used';
}

function roundup({ config, sizes }: Runs): string | null {
  const without = { ...config, hasRoundup: false };
  return sizes.some((size) => roundSize(size, config) !== roundSize(size, without))
    ? null
    : 'no request is rounded to another size than without it';
}

function collection(runs: Runs): string | null {
  if (some(runs, ['cudalloc.collections'])) return null;
  if (runs.config.perProcessMemoryFraction === null) return 'it needs a memory fraction: none is set';
  if (runs.config.expandableSegments) return 'expandable segments are not collected';
  return 'reserved memory never passed the threshold while a whole segment lay unused';
}

function fraction(runs: Runs): string | null {
  if (runs.config.perProcessMemoryFraction === 1) return '1 is the whole device';
  return some(runs, ['num_alloc_retries', 'num_ooms', 'cudalloc.collections']) ? null : 'so much was never reserved';
}

function segmentSizes({ config, sizes }: Runs): string | null {
  const inRange = config.expandableSegments
    ? (size: number) => size > SMALL_SIZE
    : (size: number) => size > SMALL_SIZE && size < OWN_SEGMENT;
  if (sizes.some((size) => inRange(roundSize(size, config)))) return null;
  return config.expandableSegments ? 'no request is above 1 MiB' : 'no request is between 1 and 10 MiB';
}
