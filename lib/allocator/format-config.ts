// Settings as a settings string: the inverse of config-parser.ts. Must not know where the string goes.

import { ConfigError } from '../errors.js';
import { MIB } from '../units.js';
import { type Config, DEFAULT_CONFIG, ROUNDUP_INTERVALS } from './config.js';

/** One setting as text; null where it says nothing. */
type Format = (config: Config) => string | null;

const flag =
  (key: keyof Config): Format =>
  (config) =>
    config[key] === DEFAULT_CONFIG[key] ? null : String(config[key]).replace(/^[tf]/, (letter) => letter.toUpperCase());

const plain =
  (key: keyof Config): Format =>
  (config) =>
    config[key] === DEFAULT_CONFIG[key] ? null : String(config[key]);

const mebibytes =
  (key: keyof Config, followed: keyof Config = key): Format =>
  (config) => {
    const standard = followed === key ? DEFAULT_CONFIG[key] : config[followed];
    return config[key] === standard ? null : wholeMebibytes(key, config[key] as number);
  };

/** In the order in which they are written. */
const FORMATS: Readonly<Record<string, Format>> = {
  backend: plain('backend'),
  expandable_segments: flag('expandableSegments'),
  expandable_segments_page_size: plain('expandableSegmentsPageSize'),
  large_segment_size_mb: mebibytes('largeSegmentSize'),
  max_split_size_mb: mebibytes('maxSplitSize'),
  max_non_split_rounding_mb: mebibytes('maxNonSplitRounding', 'largeSegmentSize'),
  roundup_power2_divisions: ({ roundupPower2Divisions }) => formatDivisions(roundupPower2Divisions),
  garbage_collection_threshold: plain('garbageCollectionThreshold'),
  per_process_memory_fraction: plain('perProcessMemoryFraction'),
  throw_on_cudamalloc_oom: flag('throwOnCudaMallocOom'),
  graph_capture_record_stream_reuse: flag('graphCaptureRecordStreamReuse'),
  release_lock_on_cudamalloc: flag('releaseLockOnCudaMalloc'),
  pinned_use_cuda_host_register: flag('pinnedUseCudaHostRegister'),
  pinned_num_register_threads: plain('pinnedNumRegisterThreads'),
  pinned_max_register_threads: plain('pinnedMaxRegisterThreads'),
  pinned_reserve_segment_size_mb: mebibytes('pinnedReserveSegmentSize'),
  pinned_use_background_threads: flag('pinnedUseBackgroundThreads'),
};

/**
 * The settings string that `parseConfig` turns into these settings: each option that differs from its default, in one order, lists in
 * their shortest ascending form. `''` for the defaults.
 * @throws ConfigError for a size that is no whole number of MiB, which only a Config object can hold
 */
export function formatConfig(config: Config): string {
  return Object.entries(FORMATS)
    .flatMap(([key, format]) => {
      const value = format(config);
      return value === null ? [] : [`${key}:${value}`];
    })
    .join(',');
}

function wholeMebibytes(key: string, bytes: number): string {
  if (Number.isInteger(bytes / MIB)) return String(bytes / MIB);
  throw new ConfigError(`${key} is ${bytes} bytes; a settings string holds whole MiB`, { key, value: String(bytes) });
}

/**
 * In the grammar of `roundup_power2_divisions`: the first interval named gives its value to those below it, `>` gives its value to the
 * last one named and all after it, and what is not named is 0.
 */
function formatDivisions(divisions: readonly number[]): string | null {
  const first = divisions[0] as number;
  const last = divisions[ROUNDUP_INTERVALS - 1] as number;
  const head = lengthOfRun(divisions, (at) => at);
  if (head === ROUNDUP_INTERVALS) return first === 0 ? null : String(first);
  const tail = ROUNDUP_INTERVALS - lengthOfRun(divisions, (at) => ROUNDUP_INTERVALS - 1 - at);
  // A tail of one interval is shorter under its own name, one of zeros needs none.
  const open = last !== 0 && tail < ROUNDUP_INTERVALS - 1;
  const entries: string[] = [];
  const name = (at: number): void => void entries.push(`${2 ** at}:${divisions[at]}`);
  // Zeros at the front are kept by naming any of them; else the last of the run gives the others its value.
  if (first === 0) name(0);
  else if (open && tail === head) entries.push(`${2 ** head}:${first}`);
  else name(head - 1);
  for (let at = head; at < (open ? tail : ROUNDUP_INTERVALS); at++) if (divisions[at] !== 0) name(at);
  if (open && (first === 0 || tail > head)) name(tail);
  if (open) entries.push(`>:${last}`);
  return `[${entries.join(',')}]`;
}

/** How many entries from one end on are equal. */
function lengthOfRun(divisions: readonly number[], position: (at: number) => number): number {
  let length = 1;
  while (length < ROUNDUP_INTERVALS && divisions[position(length)] === divisions[position(0)]) length++;
  return length;
}
