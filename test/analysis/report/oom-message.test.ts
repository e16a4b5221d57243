import { describe, expect, it } from 'vitest';
import { CachingAllocator } from '../../../lib/allocator/caching-allocator.js';
import { type OutOfMemoryMessage, parseOutOfMemoryMessage } from '../../../lib/analysis/report/oom-message.js';
import { judgeMessage } from '../../../lib/analysis/report/oom-message-verdict.js';
import { SimDevice } from '../../../lib/device/sim.js';
import { OutOfMemoryError } from '../../../lib/errors.js';

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;

/** Half a unit of the second decimal. */
const GIB_STEP = GIB / 200;
const MIB_STEP = MIB / 200;

const gib = (value: number) => ({ bytes: Math.round(value * GIB), precision: GIB_STEP });
const mib = (value: number) => ({ bytes: Math.round(value * MIB), precision: MIB_STEP });

/** Texts as they are found in public reports, by wording. */
const CACHED =
  'RuntimeError: CUDA out of memory. Tried to allocate 1.72 GiB (GPU 0; 10.76 GiB total capacity; 4.01 GiB already allocated; 356.00 MiB free; 5.54 GiB cached)';
const RESERVED =
  'RuntimeError: CUDA out of memory. Tried to allocate 2.26 GiB (GPU 1; 6.00 GiB total capacity; 781.59 MiB already allocated; 3.03 GiB free; 1.24 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.';
const ALLOWED =
  'CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 8.00 GiB total capacity; 3.90 GiB already allocated; 3.80 GiB free; 4.00 GiB allowed; 3.99 GiB reserved in total by PyTorch)';
const CURRENT =
  'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.95 GiB. GPU 0 has a total capacity of 14.57 GiB of which 1.58 GiB is free. Process 2493055 has 12.02 GiB memory in use. Including non-PyTorch memory, this process has 966.00 MiB memory in use. Of the allocated memory 734.07 MiB is allocated by PyTorch, and 33.93 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.';
const CAPACTY =
  'torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 570.00 MiB. GPU 0 has a total capacty of 79.25 GiB of which 103.50 MiB is free. Including non-PyTorch memory, this process has 79.14 GiB memory in use. Of the allocated memory 76.38 GiB is allocated by PyTorch, and 2.24 GiB is reserved by PyTorch but unallocated.';
const POOLS =
  'CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 23.69 GiB of which 13.06 MiB is free. Including non-PyTorch memory, this process has 23.66 GiB memory in use. 22.00 GiB allowed; Of the allocated memory 22.00 GiB is allocated by PyTorch, with 4.28 GiB allocated in private pools (e.g., CUDA Graphs), and 1.30 GiB is reserved by PyTorch but unallocated.';
const CONTAINER =
  'CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has a total capacty of 23.64 GiB of which 1.42 GiB is free. Process 2722 has 22.22 GiB memory in use. Of the allocated memory 20.13 GiB is allocated by PyTorch, and 1.75 GiB is reserved by PyTorch but unallocated.';

describe('the text of an out of memory', () => {
  it('to 1.3: cached is what is not allocated', () => {
    expect(parseOutOfMemoryMessage(CACHED)).toMatchObject({
      wording: 'pytorch-cached',
      device: 0,
      request: gib(1.72),
      total: gib(10.76),
      allocated: gib(4.01),
      free: mib(356),
      reservedUnallocated: gib(5.54),
      allowed: null,
    });
  });

  it('to 2.0: what is reserved in total includes the allocated', () => {
    const message = parseOutOfMemoryMessage(RESERVED);
    expect(message).toMatchObject({ wording: 'pytorch-reserved', device: 1, request: gib(2.26), free: gib(3.03) });
    expect(message?.reservedUnallocated).toEqual({
      bytes: Math.round(1.24 * GIB) - Math.round(781.59 * MIB),
      precision: GIB_STEP + MIB_STEP,
    });
  });

  it('with a memory fraction', () => {
    expect(parseOutOfMemoryMessage(ALLOWED)?.allowed).toEqual(gib(4));
    expect(parseOutOfMemoryMessage(POOLS)?.allowed).toEqual(gib(22));
  });

  it('since 2.1: other processes, this process, private pools', () => {
    expect(parseOutOfMemoryMessage(CURRENT)).toEqual({
      wording: 'pytorch-current',
      device: 0,
      request: gib(1.95),
      requested: null,
      total: gib(14.57),
      free: gib(1.58),
      allowed: null,
      allocated: mib(734.07),
      privatePools: null,
      reservedUnallocated: mib(33.93),
      processInUse: mib(966),
      processes: [{ pid: 2493055, inUse: gib(12.02) }],
    } satisfies OutOfMemoryMessage);
    expect(parseOutOfMemoryMessage(CAPACTY)).toMatchObject({ total: gib(79.25), free: mib(103.5) });
    expect(parseOutOfMemoryMessage(POOLS)).toMatchObject({ privatePools: gib(4.28), allocated: gib(22) });
  });

  it('our own', () => {
    const device = new SimDevice({ capacity: 100 * MIB });
    const allocator = new CachingAllocator({ device, conf: '', leakWarnings: false });
    allocator.malloc(90 * MIB);
    let thrown: unknown;
    try {
      allocator.malloc(11 * MIB + 100);
    } catch (error) {
      thrown = error;
    }
    const { message, details } = thrown as OutOfMemoryError;
    expect(thrown).toBeInstanceOf(OutOfMemoryError);
    const read = parseOutOfMemoryMessage(`Uncaught OutOfMemoryError: ${message}\n    at main.js:1:1`);
    expect(read).toMatchObject({
      wording: 'cudalloc',
      device: 0,
      request: mib(12),
      requested: mib(11),
      total: mib(100),
    });
    const near = (stated: { bytes: number; precision: number } | null | undefined, exact: number) =>
      expect(Math.abs(stated!.bytes - exact)).toBeLessThanOrEqual(stated!.precision);
    near(read?.free, details.free);
    near(read?.allocated, details.allocated);
    near(read?.reservedUnallocated, details.reserved - details.allocated);
    expect(judgeMessage(read!).kind).toBe(details.verdict.kind);
  });

  it.each([
    ['wrapped by a terminal', CURRENT.replace(/ /g, (_, at: number) => (at % 7 === 0 ? '\n    ' : ' '))],
    ['wrapped by a shell', CURRENT.replace('1.95 GiB', '\\\n1.95           GiB')],
    ['in a log', `line one\n[rank3]: ${CURRENT}\nTraceback (most recent call last):\n  ...`],
    ['after another sentence about it', `ran out of memory: see below\n${CURRENT}`],
    ['twice, the first counts', `${CURRENT}\n${CACHED}`],
  ])('%s', (_, text) => expect(parseOutOfMemoryMessage(text)).toEqual(parseOutOfMemoryMessage(CURRENT)));

  it.each([
    [''],
    ['out of memory'],
    ['RuntimeError: CUDA error: out of memory'],
    ['CUDA out of memory. Tried to allocate'],
    ['Tried to allocate 5.00 GiB of goodwill'],
    ['JavaScript heap out of memory'],
  ])('is not: %s', (text) => expect(parseOutOfMemoryMessage(text)).toBeNull());

  it('bytes are exact, KiB and decimals as they are', () => {
    const text =
      'Tried to allocate 512 bytes (GPU 0; 2.5 GiB total capacity; 10.90 GiB already allocated; 576.00 KiB free; 0 bytes cached)';
    expect(parseOutOfMemoryMessage(text)).toMatchObject({
      request: { bytes: 512, precision: 0 },
      total: { bytes: 2.5 * GIB, precision: GIB / 20 },
      free: { bytes: 576 * 1024, precision: 1024 / 200 },
      reservedUnallocated: { bytes: 0, precision: 0 },
    });
  });
});

describe('what the figures allow to be said', () => {
  const judged = (text: string) => judgeMessage(parseOutOfMemoryMessage(text)!);
  const old = (request: string, total: string, allocated: string, free: string, reserved: string) =>
    judged(
      `Tried to allocate ${request} (GPU 0; ${total} total capacity; ${allocated} already allocated; ${free} free; ${reserved} reserved in total by PyTorch)`,
    );

  it('fragmentation is plausible where enough is reserved but unallocated', () => {
    expect(judged(CACHED)).toMatchObject({ kind: 'fragmented', fragmentation: 'plausible', shortBy: null });
    expect(judged(CAPACTY)).toMatchObject({ kind: 'fragmented' });
  });

  it('cannot be where the gap is tiny', () => {
    const { kind, fragmentation, shortBy, precision } = old(
      '2.00 GiB',
      '11.17 GiB',
      '9.60 GiB',
      '0.90 GiB',
      '9.62 GiB',
    );
    expect({ kind, fragmentation }).toEqual({ kind: 'full', fragmentation: 'impossible' });
    expect(Math.abs(shortBy! - (9.6 + 2 - 11.17) * GIB)).toBeLessThanOrEqual(precision);
  });

  it('other processes hold it', () => {
    const verdict = judged(CURRENT);
    expect(verdict).toMatchObject({ kind: 'other_process', fragmentation: 'impossible' });
    expect(verdict.sentence).toMatch(/held by other processes/);
    // Old wording: far more is missing than a CUDA context takes.
    expect(old('1.00 GiB', '16.00 GiB', '4.00 GiB', '0.20 GiB', '4.10 GiB').kind).toBe('other_process');
  });

  it('a process in a container is itself, under another number', () => {
    expect(judged(CONTAINER)).toMatchObject({ kind: 'full' });
  });

  it('larger than the card, or than what is allowed of it', () => {
    expect(old('154.84 GiB', '23.69 GiB', '9.15 GiB', '13.97 GiB', '9.16 GiB')).toMatchObject({ kind: 'too_large' });
    expect(judged(ALLOWED.replace('20.00 MiB', '5.00 GiB'))).toMatchObject({ kind: 'too_large', shortBy: GIB });
  });

  it('the memory fraction is full, the card is not', () => {
    expect(judged(ALLOWED)).toMatchObject({ kind: 'fragmented' });
    expect(judged(ALLOWED.replace('3.90 GiB already', '3.99 GiB already'))).toMatchObject({ kind: 'full' });
  });

  it('free memory that the driver refused is unexplained', () => {
    expect(judged(RESERVED)).toMatchObject({ kind: 'unknown', fragmentation: 'unknown' });
  });

  it('names private pools', () =>
    expect(judged(POOLS.replace('22.00 GiB allowed; ', '')).sentence).toMatch(/private pools/));

  it('says so where figures are missing', () => {
    expect(judged('Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 47.98 GiB.')).toMatchObject({
      kind: 'unknown',
    });
  });
});
