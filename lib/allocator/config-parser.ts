// Reads a settings string in PyTorch's grammar. Every refusal names key, value, position and what is accepted. Must not know what the
// settings do.

import { ConfigError } from '../errors.js';
import type { Config } from './config.js';

/** `'2.4'`: exactly PyTorch 2.4's grammar and keys. `'current'`: the keys added since too, numbers without trailing garbage. */
export type Dialect = '2.4' | 'current';

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
type Settings = Mutable<Partial<Config>>;

const MIB = 1024 * 1024;
const INTERVALS = 16;
const LARGE_SEGMENT = 20 * MIB;

interface Token {
  readonly text: string;
  readonly position: number;
}

/** Words and the punctuation `,:[]`; blanks are dropped wherever they are, as PyTorch does. */
function tokenize(text: string): Token[] {
  const tokens: Token[] = [];
  let word = '';
  let start = 0;
  const flush = (): void => {
    if (word !== '') tokens.push({ text: word, position: start });
    word = '';
  };
  for (let i = 0; i < text.length; i++) {
    const char = text[i] as string;
    if (',:[]'.includes(char)) {
      flush();
      tokens.push({ text: char, position: i });
    } else if (char !== ' ') {
      if (word === '') start = i;
      word += char;
    }
  }
  flush();
  return tokens;
}

class Reader {
  readonly #text: string;
  readonly #tokens: readonly Token[];
  readonly lenient: boolean;
  #at = 0;
  /** The option being read. */
  key = '';
  /** Checks that need the whole string. */
  readonly whenRead: (() => void)[] = [];

  constructor(text: string, dialect: Dialect) {
    this.#text = text;
    this.#tokens = tokenize(text);
    this.lenient = dialect === '2.4';
  }

  get atEnd(): boolean {
    return this.#at >= this.#tokens.length;
  }

  nextIs(text: string): boolean {
    return this.peek()?.text === text;
  }

  peek(): Token | undefined {
    return this.#tokens[this.#at];
  }

  take(): Token {
    const token = this.peek();
    if (token === undefined) return this.refuse({ text: '', position: this.#text.length }, 'a value');
    this.#at++;
    return token;
  }

  expect(text: string): void {
    const token = this.#tokens[this.#at];
    if (token?.text !== text) this.refuse(token ?? { text: '', position: this.#text.length }, `'${text}'`);
    this.#at++;
  }

  refuse(token: Token, accepted: string, key = this.key): never {
    const found = token.text === '' ? 'the end of the string' : `'${token.text}'`;
    const where = `at position ${token.position} of '${this.#text}'`;
    throw new ConfigError(`${key}: found ${found} ${where}; accepted is ${accepted}`, {
      key,
      value: token.text,
      position: token.position,
    });
  }

  unknownKey(token: Token, known: readonly string[]): never {
    throw new ConfigError(
      `unknown option '${token.text}' at position ${token.position} of '${this.#text}'; known are ${known.join(', ')}`,
      { key: token.text, position: token.position },
    );
  }

  integer(accepted: string, valid: (value: number) => boolean): number {
    const token = this.take();
    // PyTorch 2.4 reads the leading digits and ignores what follows them.
    const match = (this.lenient ? /^[+-]?\d+/ : /^\d+$/).exec(token.text);
    const value = match === null ? Number.NaN : Number(match[0]);
    if (!Number.isSafeInteger(value) || !valid(value)) this.refuse(token, accepted);
    return value;
  }

  number(accepted: string, valid: (value: number) => boolean): number {
    const token = this.take();
    const value = this.lenient
      ? Number.parseFloat(token.text)
      : Number(/^[\d.eE+-]+$/.test(token.text) ? token.text : 'x');
    if (!Number.isFinite(value) || !valid(value)) this.refuse(token, accepted);
    return value;
  }

  boolean(): boolean {
    const token = this.take();
    if (token.text !== 'True' && token.text !== 'False') this.refuse(token, 'True or False, with a capital');
    return token.text === 'True';
  }
}

function isPowerOfTwo(value: number): boolean {
  return value > 0 && Number.isInteger(Math.log2(value));
}

function mebibytes(reader: Reader, above: number): number {
  return reader.integer(`a whole number of MiB greater than ${above}`, (value) => value > above) * MIB;
}

function powerOfTwoThreads(reader: Reader, max: number): number {
  return reader.integer(`a power of two up to ${max}`, (value) => isPowerOfTwo(value) && value <= max);
}

function roundup(reader: Reader): readonly number[] {
  const divisions = new Array<number>(INTERVALS).fill(0);
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
      last = Math.min(Math.log2(mib), INTERVALS - 1);
      if (first) divisions.fill(value, 0, last);
      divisions[last] = value;
      first = false;
    }
    if (!reader.nextIs(']')) reader.expect(',');
  }
  reader.expect(']');
  return divisions;
}

type Option = (reader: Reader, settings: Settings) => void;

const OPTIONS_2_4: Readonly<Record<string, Option>> = {
  max_split_size_mb(reader, settings) {
    const token = reader.peek();
    settings.maxSplitSize = mebibytes(reader, 0);
    reader.whenRead.push(() => {
      const above = settings.largeSegmentSize ?? LARGE_SEGMENT;
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

/**
 * What a settings string says, nothing filled in.
 * @throws ConfigError
 */
export function parseSettings(text: string, dialect: Dialect): Partial<Config> {
  const settings: Settings = {};
  const reader = new Reader(text, dialect);
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
