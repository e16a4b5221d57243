// The allocator's settings: what they are, their defaults and ranges. Must not know how they are written (config-parser.ts), nor what
// they do.

import { ConfigError } from '../errors.js';
import { MIB } from '../units.js';

/** Intervals of `roundup_power2_divisions`: 1 MiB, 2 MiB, ... 32 GiB and above. */
export const ROUNDUP_INTERVALS = 16;

/** Sizes are bytes. Names are those of PyTorch's keys, without the unit. */
export interface Config {
  /** `backend`; only `native` is ours. */
  readonly backend: 'native' | 'cudaMallocAsync';
  /** `expandable_segments` */
  readonly expandableSegments: boolean;
  /** `expandable_segments_page_size`; null: 2 MiB in the small pool, `largeSegmentSize` in the large one. */
  readonly expandableSegmentsPageSize: number | null;
  /** `garbage_collection_threshold`; 0 is off. */
  readonly garbageCollectionThreshold: number;
  /** `graph_capture_record_stream_reuse`; inert: graphs are not captured here. */
  readonly graphCaptureRecordStreamReuse: boolean;
  /** `large_segment_size_mb`: segment of requests under 10 MiB in the large pool, and its page. */
  readonly largeSegmentSize: number;
  /** `max_non_split_rounding_mb`: how much larger than the request an oversize block may be. Follows `largeSegmentSize`. */
  readonly maxNonSplitRounding: number;
  /** `max_split_size_mb`; Infinity: no limit. */
  readonly maxSplitSize: number;
  /** `per_process_memory_fraction`; null: no limit. */
  readonly perProcessMemoryFraction: number | null;
  /** `pinned_*`: of the host allocator. */
  readonly pinnedMaxRegisterThreads: number;
  readonly pinnedNumRegisterThreads: number;
  readonly pinnedReserveSegmentSize: number;
  readonly pinnedUseBackgroundThreads: boolean;
  readonly pinnedUseCudaHostRegister: boolean;
  /** `release_lock_on_cudamalloc`; inert: there is no lock. */
  readonly releaseLockOnCudaMalloc: boolean;
  /** `roundup_power2_divisions`, for sizes from 1 MiB to 32 GiB and above by powers of two; 0 and 1 are off. */
  readonly roundupPower2Divisions: readonly number[];
  /** `throw_on_cudamalloc_oom`; inert: the fraction is always checked before the driver is asked. */
  readonly throwOnCudaMallocOom: boolean;
  /** Whether any division is set. */
  readonly hasRoundup: boolean;
  /** Settings that only PyTorch can honour, one sentence each. */
  readonly warnings: readonly string[];
}

export const DEFAULT_CONFIG: Config = Object.freeze({
  backend: 'native',
  expandableSegments: false,
  expandableSegmentsPageSize: null,
  garbageCollectionThreshold: 0,
  graphCaptureRecordStreamReuse: false,
  largeSegmentSize: 20 * MIB,
  maxNonSplitRounding: 20 * MIB,
  maxSplitSize: Number.POSITIVE_INFINITY,
  perProcessMemoryFraction: null,
  pinnedMaxRegisterThreads: 128,
  pinnedNumRegisterThreads: 1,
  pinnedReserveSegmentSize: 0,
  pinnedUseBackgroundThreads: false,
  pinnedUseCudaHostRegister: false,
  releaseLockOnCudaMalloc: false,
  roundupPower2Divisions: Object.freeze(new Array<number>(ROUNDUP_INTERVALS).fill(0)),
  throwOnCudaMallocOom: false,
  hasRoundup: false,
  warnings: Object.freeze([]),
});

/**
 * Fills in the defaults and what follows from the settings.
 * @throws ConfigError when a value is out of range
 */
export function completeConfig(settings: Partial<Config>): Config {
  checkTypes(settings);
  const config = { ...DEFAULT_CONFIG, ...settings };
  const follows = settings.maxNonSplitRounding ?? config.largeSegmentSize;
  checkRanges(config);
  return Object.freeze({
    ...config,
    maxNonSplitRounding: follows,
    hasRoundup: config.roundupPower2Divisions.some((divisions) => divisions > 1),
    warnings: Object.freeze(warningsFor(config)),
  });
}

/** For callers without types: an unknown or mistyped setting must not be passed over. */
function checkTypes(settings: Partial<Config>): void {
  for (const [key, value] of Object.entries(settings)) {
    const known = Object.hasOwn(DEFAULT_CONFIG, key);
    const fallback = known ? DEFAULT_CONFIG[key as keyof Config] : undefined;
    const accepted = fallback === null ? ['number', 'object'] : [typeof fallback];
    if (known && accepted.includes(typeof value)) continue;
    const why = known
      ? `is ${String(value)}; accepted is ${accepted[0]}`
      : `is not a setting; known are ${Object.keys(DEFAULT_CONFIG).join(', ')}`;
    throw new ConfigError(`${key} ${why}`, { key, value: String(value) });
  }
}

function checkRanges(config: Config): void {
  const refuse = (key: string, value: unknown, accepted: string): never => {
    throw new ConfigError(`${key} is ${String(value)}; accepted is ${accepted}`, { key, value: String(value) });
  };
  const {
    maxSplitSize,
    largeSegmentSize,
    garbageCollectionThreshold: threshold,
    expandableSegmentsPageSize: page,
  } = config;
  if (!(largeSegmentSize > MIB && largeSegmentSize % MIB === 0)) {
    refuse('largeSegmentSize', largeSegmentSize, 'a whole number of MiB, more than 1');
  }
  if (!(maxSplitSize > largeSegmentSize)) {
    refuse('maxSplitSize', maxSplitSize, `more than the segment size of the large pool (${largeSegmentSize} bytes)`);
  }
  if (!(threshold >= 0 && threshold < 1))
    refuse('garbageCollectionThreshold', threshold, 'a number from 0 (off) to below 1');
  if (!(config.maxNonSplitRounding >= 0))
    refuse('maxNonSplitRounding', config.maxNonSplitRounding, 'a number of bytes');
  if (page !== null && !(page > 0 && page % (2 * MIB) === 0)) {
    refuse('expandableSegmentsPageSize', page, 'a multiple of 2 MiB, the smallest page that can be mapped');
  }
  const fraction = config.perProcessMemoryFraction;
  if (fraction !== null && !(fraction >= 0 && fraction <= 1))
    refuse('perProcessMemoryFraction', fraction, 'a number from 0 to 1');
  const divisions = config.roundupPower2Divisions;
  if (divisions.length !== ROUNDUP_INTERVALS || divisions.some((d) => !isZeroOrPowerOfTwo(d))) {
    refuse('roundupPower2Divisions', divisions, `${ROUNDUP_INTERVALS} numbers, each 0 or a power of two`);
  }
}

function isZeroOrPowerOfTwo(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0 && (value === 0 || Number.isInteger(Math.log2(value)));
}

function warningsFor(config: Config): string[] {
  const warnings: string[] = [];
  if (config.backend !== 'native')
    warnings.push(`backend:${config.backend} is PyTorch's; the native allocator is used here`);
  if (config.pinnedUseCudaHostRegister || config.pinnedUseBackgroundThreads || config.pinnedReserveSegmentSize > 0) {
    warnings.push("the pinned_* options are those of PyTorch's host allocator and change nothing on the device");
  }
  return warnings;
}
