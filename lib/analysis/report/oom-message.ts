// Reads the text of an out of memory: PyTorch's in its wordings since 1.0, and our own. Must not know what the figures mean together; that is
// oom-message-verdict.ts.
//
// Wordings: "(GPU 0; A total capacity; B already allocated; C free; D cached)" to 1.3, "D reserved in total by PyTorch" to 2.0, since then
// "GPU 0 has a total capacity of A of which C is free. ... Of the allocated memory B is allocated by PyTorch, and E is reserved by PyTorch but
// unallocated" (2.1 wrote "capacty"); with a memory fraction also "F allowed", from 2.4 on also "with G allocated in private pools".

/** A size as a message states it: rounded. The true value is `bytes` plus or minus `precision`. */
export interface StatedSize {
  readonly bytes: number;
  /** Half a unit of the last digit; 0 for a number of bytes. */
  readonly precision: number;
}

/** The figures of a message; null for what it does not state. */
export interface OutOfMemoryMessage {
  readonly wording: 'pytorch-cached' | 'pytorch-reserved' | 'pytorch-current' | 'cudalloc';
  /** Number of the device as the process sees it. */
  readonly device: number | null;
  /** What could not be had. PyTorch names the segment that was asked from the driver, not the request: 20 MiB for one of 5 MiB. */
  readonly request: StatedSize;
  /** What the program asked for; only our own message says it. */
  readonly requested: StatedSize | null;
  readonly total: StatedSize | null;
  readonly free: StatedSize | null;
  /** By the memory fraction. */
  readonly allowed: StatedSize | null;
  readonly allocated: StatedSize | null;
  /** Allocated, or kept, in private pools, those of CUDA graphs; part of `allocated`. */
  readonly privatePools: StatedSize | null;
  /** Reserved by the allocator but not allocated. */
  readonly reservedUnallocated: StatedSize | null;
  /** Held by this process, memory outside PyTorch included. */
  readonly processInUse: StatedSize | null;
  /** Processes that the message names. In a container this one may be among them, under another number than its own. */
  readonly processes: readonly { readonly pid: number; readonly inUse: StatedSize }[];
}

const SIZE = String.raw`(\d+(?:\.\d+)?) ?(bytes|KiB|MiB|GiB|TiB)`;
const UNITS: Readonly<Record<string, number>> = {
  bytes: 1,
  KiB: 1024,
  MiB: 1024 ** 2,
  GiB: 1024 ** 3,
  TiB: 1024 ** 4,
};
/** Far more text than any message has. */
const MAX_TEXT = 1_000_000;
const MAX_MESSAGE = 4_000;

/**
 * The figures of the first out-of-memory message in a text; null when there is none. Line breaks, prefixes (`torch.OutOfMemoryError:`) and
 * text around it do not matter. Linear in the text.
 */
export function parseOutOfMemoryMessage(text: string): OutOfMemoryMessage | null {
  // Terminals and shells wrap lines, some with a backslash.
  const flat = text
    .slice(0, MAX_TEXT)
    .replace(/\\\r?\n/g, ' ')
    .replace(/\s+/g, ' ');
  for (const start of flat.matchAll(/Tried to allocate|out of memory: /g)) {
    const rest = flat.slice(start.index, start.index + MAX_MESSAGE);
    const next = rest.indexOf('Tried to allocate', 1);
    const message = next < 0 ? rest : rest.slice(0, next);
    const parsed = parsePyTorch(message) ?? parseOwn(message);
    if (parsed !== null) return parsed;
  }
  return null;
}

function parsePyTorch(text: string): OutOfMemoryMessage | null {
  const request = stated(text, `^Tried to allocate ${SIZE}`);
  if (request === null) return null;
  const cached = stated(text, `${SIZE} cached`);
  const reserved = stated(text, `${SIZE} reserved in total`);
  const old = /\(GPU (\d+);/.exec(text);
  const current = /GPU (\d+) has a total capac/.exec(text);
  if (old === null && current === null) return null;
  const processes = [...text.matchAll(new RegExp(`Process (\\d+) has ${SIZE} memory in use`, 'g'))];
  const allocated = stated(text, `${SIZE} already allocated`) ?? stated(text, `memory ${SIZE} is allocated by PyTorch`);
  return {
    wording: cached !== null ? 'pytorch-cached' : old !== null ? 'pytorch-reserved' : 'pytorch-current',
    device: Number((old ?? current)?.[1]),
    request,
    requested: null,
    total: stated(text, `${SIZE} total capacity`) ?? stated(text, `total capaci?ty of ${SIZE}`),
    free: stated(text, `${SIZE} free[;)]`) ?? stated(text, `of which ${SIZE} is free`),
    allowed: stated(text, `${SIZE} allowed`),
    allocated,
    privatePools: stated(text, `with ${SIZE} allocated in private pools`),
    reservedUnallocated:
      stated(text, `${SIZE} is reserved by PyTorch but unallocated`) ?? cached ?? difference(reserved, allocated),
    processInUse: stated(text, `this process has ${SIZE} memory in use`),
    processes: processes.map(([, pid, number, unit]) => ({ pid: Number(pid), inUse: sizeOf(number, unit) })),
  };
}

function parseOwn(text: string): OutOfMemoryMessage | null {
  const request = stated(text, `^out of memory: ${SIZE} could not be had`);
  if (request === null) return null;
  const device = /(?:GPU|device) (\d+) has/.exec(text)?.[1];
  return {
    wording: 'cudalloc',
    device: device === undefined ? null : Number(device),
    request,
    requested: stated(text, `for a request of ${SIZE}`),
    total: stated(text, `has ${SIZE} in total`),
    free: stated(text, `in total, ${SIZE} of it free`),
    allowed: stated(text, `memory fraction allows ${SIZE}`),
    allocated: stated(text, `allocator holds ${SIZE} in use`),
    privatePools: null,
    reservedUnallocated: stated(text, `in use and ${SIZE} reserved but unallocated`),
    processInUse: null,
    processes: [],
  };
}

function stated(text: string, pattern: string): StatedSize | null {
  const match = new RegExp(pattern).exec(text);
  return match === null ? null : sizeOf(match[1], match[2]);
}

function sizeOf(number = '0', unit = 'bytes'): StatedSize {
  const scale = UNITS[unit] as number;
  const decimals = number.split('.')[1]?.length ?? 0;
  return { bytes: Math.round(Number(number) * scale), precision: scale === 1 ? 0 : (scale / 2) * 10 ** -decimals };
}

function difference(a: StatedSize | null, b: StatedSize | null): StatedSize | null {
  if (a === null || b === null) return null;
  return { bytes: Math.max(0, a.bytes - b.bytes), precision: a.precision + b.precision };
}
