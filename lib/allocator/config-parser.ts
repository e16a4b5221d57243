// What a settings string means: the keys of each dialect and their values. Must not know where the string comes from, nor what the
// settings do.

import { MIB } from '../units.js';
import { type Config, completeConfig, DEFAULT_CONFIG, ROUNDUP_INTERVALS } from './config.js';
import { SettingsReader } from './settings-reader.js';

/** `'2.4'`: exactly PyTorch 2.4's grammar and keys. `'current'`: the keys added since too, numbers without trailing garbage. */
export type Dialect = '2.4' | 'current';

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
type Settings = Mutable<Partial<Config>>;

function isPowerOfTwo(value: number): boolean {
  return value > 0 && Number.isInteger(Math.log2(value));
}

function mebibytes(reader: SettingsReader, above: number): number {
  return reader.integer(`a whole number of MiB greater than ${above}`, (value) => value > above) * MIB;
}

function powerOfTwoThreads(reader: SettingsReader, max: number): number {
  return reader.integer(`a power of two up to ${max}`, (value) => isPowerOfTwo(value) && value <= max);
}

function roundup(reader: SettingsReader): readonly number[] {
  const divisions = new Array<number>(ROUNDUP_INTERVALS).fill(0);
  if (!reader.nextIs('[')) {
    return divisions.fill(reader.integer('a power of two, or a list [size:divisions,...]', isPowerOfTwo));
  }
  reader.expect('[');
  let last = 0;
  let first = true;
  while (!reader.nextIs(']')) {
    const size = reader.take();
    reader.expect(':');
    const value = reader.integer('0 or a power of two', (number) => number === 0 || isPowerOfTwo(number));
    if (size.text === '>') {
      divisions.fill(value, last);
    } else {
      const mib = Number(/^\d+$/.test(size.text) ? size.text : Number.NaN);
      if (!isPowerOfTwo(mib)) reader.refuse(size, 'a size in MiB that is a power of two, or >');
      last = Math.min(Math.log2(mib), ROUNDUP_INTERVALS - 1);
      if (first) divisions.fill(value, 0, last);
      divisions[last] = value;
      first = false;
    }
    if (!reader.nextIs(']')) reader.expect(',');
  }
  reader.expect(']');
  return divisions;
}

type Option = (reader: SettingsReader, settings: Settings) => void;

const OPTIONS_2_4: Readonly<Record<string, Option>> = {
  max_split_size_mb(reader, settings) {
    const token = reader.peek();
    settings.maxSplitSize = mebibytes(reader, 0);
    reader.whenRead.push(() => {
      const above = settings.largeSegmentSize ?? DEFAULT_CONFIG.largeSegmentSize;
      const refused = token !== undefined && (settings.maxSplitSize as number) <= above;
      if (refused) reader.refuse(token, `a whole number of MiB greater than ${above / MIB}`, 'max_split_size_mb');
    });
  },
  garbage_collection_threshold(reader, settings) {
    settings.garbageCollectionThreshold = reader.number('a number between 0 and 1', (value) => value > 0 && value < 1);
  },
  roundup_power2_divisions(reader, settings) {
    settings.roundupPower2Divisions = roundup(reader);
  },
  backend(reader, settings) {
    const token = reader.take();
    if (token.text !== 'native' && token.text !== 'cudaMallocAsync') reader.refuse(token, 'native or cudaMallocAsync');
    settings.backend = token.text as Config['backend'];
  },
  expandable_segments(reader, settings) {
    settings.expandableSegments = reader.boolean();
  },
  release_lock_on_cudamalloc(reader, settings) {
    settings.releaseLockOnCudaMalloc = reader.boolean();
  },
  pinned_use_cuda_host_register(reader, settings) {
    settings.pinnedUseCudaHostRegister = reader.boolean();
  },
  pinned_num_register_threads(reader, settings) {
    settings.pinnedNumRegisterThreads = powerOfTwoThreads(reader, 128);
  },
};

const OPTIONS_SINCE: Readonly<Record<string, Option>> = {
  large_segment_size_mb(reader, settings) {
    settings.largeSegmentSize = mebibytes(reader, 1);
  },
  max_non_split_rounding_mb(reader, settings) {
    settings.maxNonSplitRounding = mebibytes(reader, -1);
  },
  expandable_segments_page_size(reader, settings) {
    const page = (value: number): boolean => value > 0 && value % (2 * MIB) === 0;
    settings.expandableSegmentsPageSize = reader.integer('a number of bytes that is a multiple of 2 MiB', page);
  },
  per_process_memory_fraction(reader, settings) {
    settings.perProcessMemoryFraction = reader.number('a number from 0 to 1', (value) => value >= 0 && value <= 1);
  },
  throw_on_cudamalloc_oom(reader, settings) {
    settings.throwOnCudaMallocOom = reader.boolean();
  },
  graph_capture_record_stream_reuse(reader, settings) {
    settings.graphCaptureRecordStreamReuse = reader.boolean();
  },
  pinned_use_background_threads(reader, settings) {
    settings.pinnedUseBackgroundThreads = reader.boolean();
  },
  pinned_reserve_segment_size_mb(reader, settings) {
    settings.pinnedReserveSegmentSize = mebibytes(reader, 0);
  },
  pinned_max_register_threads(reader, settings) {
    settings.pinnedMaxRegisterThreads = powerOfTwoThreads(reader, 1024);
  },
};

const OPTIONS: Readonly<Record<Dialect, Readonly<Record<string, Option>>>> = {
  '2.4': OPTIONS_2_4,
  current: { ...OPTIONS_2_4, ...OPTIONS_SINCE },
};

/** The names of all options of a dialect. */
export function optionNames(dialect: Dialect): string[] {
  return Object.keys(OPTIONS[dialect]);
}

/** What a new settings string does not reset. */
const KEPT = [
  'backend',
  'expandableSegments',
  'expandableSegmentsPageSize',
  'graphCaptureRecordStreamReuse',
  'perProcessMemoryFraction',
  'pinnedMaxRegisterThreads',
  'pinnedNumRegisterThreads',
  'pinnedReserveSegmentSize',
  'pinnedUseBackgroundThreads',
  'pinnedUseCudaHostRegister',
  'releaseLockOnCudaMalloc',
  'throwOnCudaMallocOom',
] as const satisfies readonly (keyof Config)[];

export interface ParseOptions {
  /** `'2.4'` accepts and refuses what PyTorch 2.4 does, `'current'` also the keys added since, and no trailing garbage in numbers. */
  readonly dialect?: Dialect;
  /** Settings in force: as in PyTorch, the options that a new string does not reset are taken from here. */
  readonly base?: Config;
}

/**
 * Parses a settings string as PyTorch does (`key:value,key:[a:b,c:d]`); `null` and `''` are the defaults.
 * @throws ConfigError with key, value, position and what is accepted
 */
export function parseConfig(text: string | null, options: ParseOptions = {}): Config {
  const base = options.base ?? DEFAULT_CONFIG;
  const kept = Object.fromEntries(KEPT.map((key) => [key, base[key]])) as Partial<Config>;
  const settings = parseSettings(text ?? '', options.dialect ?? 'current');
  return completeConfig({ ...kept, ...settings });
}

/** What a settings string says, nothing filled in. */
function parseSettings(text: string, dialect: Dialect): Partial<Config> {
  const settings: Settings = {};
  const reader = new SettingsReader(text, dialect === '2.4');
  const options = OPTIONS[dialect];
  while (!reader.atEnd) {
    const key = reader.take();
    const option = Object.hasOwn(options, key.text) ? options[key.text] : undefined;
    if (option === undefined) return reader.unknownKey(key, Object.keys(options));
    reader.key = key.text;
    reader.expect(':');
    option(reader, settings);
    if (!reader.atEnd) reader.expect(',');
  }
  for (const check of reader.whenRead) check();
  return settings;
}
