// `backend: 'cuda'` over stand-in driver libraries, through the real loader: drivers old and new, whole and broken. Each in a
// process of its own, since a driver is loaded once per process.

import { beforeAll, describe, expect, test } from 'vitest';
import { compiled, runProgram } from '../support/child.js';
import { buildStandIns, type StandInOptions, standInEnvironment } from '../support/stand-ins.js';

const MIB = 1024 * 1024;

beforeAll(() => buildStandIns(), 300_000);

/** Runs a program's body that fills `out`, and gives back what it filled. */
async function run(
  body: string,
  options: StandInOptions = {},
  env: Record<string, string> = {},
): Promise<Record<string, unknown>> {
  const text = `import { openDevice } from ${compiled('device/open.js')};
    import { CachingAllocator } from ${compiled('allocator/caching-allocator.js')};
    const MIB = 1024 * 1024, PAGE = 2 * MIB, out = {};
    const caught = (call) => { try { call(); return null; } catch ({ name, code, message, cudaError }) { return { name, code, message, cudaError }; } };
    ${body}
    process.stdout.write(JSON.stringify(out));`;
  const ended = await runProgram(text, { env: { ...standInEnvironment(options), ...env } });
  expect({ code: ended.code, signal: ended.signal, stderr: ended.stderr }).toEqual({
    code: 0,
    signal: null,
    stderr: '',
  });
  return JSON.parse(ended.stdout) as Record<string, unknown>;
}

/** Uses memory of both kinds, streams, events, copies and pinned memory, with checks of the bytes. */
const USE = `
  const device = openDevice({ backend: 'cuda' });
  const stream = device.createStream();
  const event = device.createEvent();
  const sent = Uint8Array.from({ length: PAGE }, (_, i) => i * 7), received = new Uint8Array(PAGE);
  const roundTrip = (address) => {
    received.fill(0);
    device.memcpyHtoD(address, sent, stream);
    event.record(stream);
    event.synchronize();
    device.memcpyDtoH(received, address, stream);
    return Buffer.compare(sent, received) === 0;
  };
  const segment = device.malloc(PAGE);
  out.segment = roundTrip(segment);
  device.free(segment);
  out.virtual = device.features.virtualMemory;
  if (device.features.virtualMemory.works) {
    const handles = new Int32Array(3);
    const address = device.addressReserve(8 * PAGE);
    device.memCreate(PAGE, handles);
    device.memMap(address, PAGE, handles);
    out.pages = roundTrip(address + PAGE / 2);
    device.memUnmap(address, PAGE, 3);
    device.memRelease(handles);
    device.addressFree(address, 8 * PAGE);
  }
  device.hostFree(device.hostAlloc(4096));
  out.backend = device.backend;
  out.cudaMalloc = device.features.cudaMalloc;
  out.sharing = device.features.sharing;
  out.calls = device.driverCalls();
  out.info = device.memGetInfo();
  out.granularity = device.granularity;
  out.mock = device.mock ?? null;
  device.close();
`;

const WORKS = { works: true };

describe('drivers', () => {
  test.each([['runtime'], ['runtime_13']])('a current driver with %s: all works', async (runtime) => {
    const out = await run(USE, { runtime });
    expect(out).toMatchObject({
      ...{ backend: 'cuda', segment: true, pages: true, virtual: WORKS, cudaMalloc: WORKS, mock: null },
      calls: { cudaMalloc: 1, cudaFree: 1, cuMemCreate: 3, cuMemMap: 3, cuMemSetAccess: 1, cuMemUnmap: 3 },
      granularity: 2 * MIB,
    });
  });

  test.each([['before_12_0'], ['before_11_3']])(
    '%s with a runtime of 12: the runtime is too new for it, all else works',
    async (driver) => {
      const out = await run(USE, { driver });
      expect(out).toMatchObject({ segment: true, pages: true, virtual: WORKS, cudaMalloc: { works: false } });
      expect((out.cudaMalloc as { reason: string }).reason).toMatch(/runtime.*driver|driver.*runtime/);
      expect(out.calls).toMatchObject({ cudaMalloc: 1, cudaFree: 1, cuMemCreate: 3 });
    },
  );

  test.each([['before_10_2'], ['without_virtual_memory']])(
    '%s: everything but virtual memory works',
    async (driver) => {
      const body = `${USE} const again = openDevice({ backend: 'cuda' });
      out.reserve = caught(() => again.addressReserve(PAGE)); out.create = caught(() => again.memCreate(PAGE, new Int32Array(1)));`;
      const out = await run(body, { driver });
      expect(out).toMatchObject({ segment: true, virtual: { works: false }, granularity: 0 });
      expect((out.virtual as { reason: string }).reason).toMatch(/cuMem|virtual memory/);
      expect(out.reserve).toMatchObject({ code: 'ERR_CUDALLOC_UNSUPPORTED' });
      expect(out.create).toMatchObject({ code: 'ERR_CUDALLOC_UNSUPPORTED' });
    },
  );

  test('a driver and a device that cannot share memory: all else works, and what is missing is named', async () => {
    const body = `${USE} const again = openDevice({ backend: 'cuda' });
      out.null = again.sharing; out.create = caught(() => new CachingAllocator({ device: again }).allocate(1, { shareable: true }));`;
    const old = await run(body, { driver: 'without_sharing' });
    const reason = 'The driver cannot share memory between processes: it has no cuMemExportToShareableHandle.';
    expect(old).toMatchObject({ pages: true, virtual: WORKS, sharing: { works: false, reason }, null: null });
    expect(old.create).toMatchObject({
      code: 'ERR_CUDALLOC_UNSUPPORTED',
      message: expect.stringContaining('it has no cuMemExportToShareableHandle'),
    });
    const device = await run(body, { sharing: false });
    expect(device).toMatchObject({ pages: true, virtual: WORKS, sharing: { works: false } });
    expect(device.create).toMatchObject({
      message: expect.stringContaining('CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED is 0'),
    });
    const none = await run(body, { driver: 'before_10_2' });
    expect(none.create).toMatchObject({ message: expect.stringMatching(/too old for virtual memory/) });
  });

  test('memory is shared through the driver', async () => {
    const body = `const device = openDevice({ backend: 'cuda' });
      const allocator = new CachingAllocator({ device });
      const buffer = allocator.allocate(MIB, { shareable: true });
      buffer.fill(7);
      const handle = buffer.exportHandle();
      const imported = allocator.importHandle(handle);
      out.handle = handle; out.byte = imported.read(0, 1)[0]; out.uuid = device.uuid;
      out.other = caught(() => allocator.importHandle({ ...handle, device: 'another' }));
      imported.free(); buffer.free(); out.calls = device.driverCalls(); out.info = device.memGetInfo();
      allocator.close(); device.close();`;
    const out = await run(body, {});
    expect(out).toMatchObject({ byte: 7, handle: { backend: 'cuda', device: out.uuid, size: MIB, bytes: 2 * MIB } });
    expect(out.calls).toMatchObject({ cuMemExportToShareableHandle: 1, cuMemImportFromShareableHandle: 1 });
    expect(out.other).toMatchObject({ code: 'ERR_CUDALLOC_WRONG_THREAD' });
    expect((out.info as { free: number; total: number }).free).toBe((out.info as { total: number }).total);
  });

  test('a device without virtual memory says so', async () => {
    const out = await run(USE, { virtualMemory: false });
    expect(out).toMatchObject({
      segment: true,
      virtual: { works: false, reason: expect.stringMatching(/virtual memory/) },
    });
  });

  test.each([
    ['no runtime library', null],
    ['a runtime library that lacks a function', 'runtime_incomplete'],
  ])('%s: memory comes from cuMemAlloc', async (_, runtime) => {
    const out = await run(USE, { runtime });
    expect(out).toMatchObject({
      segment: true,
      pages: true,
      cudaMalloc: { works: false, reason: expect.stringMatching(/\w/) },
    });
    expect(out.calls).toMatchObject({ cudaMalloc: 1, cudaFree: 1 });
  });
});

describe('no device', () => {
  const OPEN = `out.error = caught(() => openDevice({ backend: 'cuda' })); const auto = openDevice({ capacity: 64 * MIB }); out.auto = auto.backend;`;

  test.each<[string, StandInOptions, Record<string, string>, RegExp]>([
    ['no driver library', {}, { CUDALLOC_LIBCUDA: 'libcuda-is-not-here.so.1' }, /libcuda-is-not-here\.so\.1/],
    ['a required function is missing', { driver: 'without_peer_copies' }, {}, /cuMemcpyPeerAsync/],
    ['the driver has no device', { devices: 0 }, {}, /device/],
    ['the stub library', { fail: 'cuInit:0:CUDA_ERROR_STUB_LIBRARY' }, {}, /stub/i],
    ['cuInit fails', { fail: 'cuInit:0:CUDA_ERROR_NO_DEVICE' }, {}, /CUDA_ERROR_NO_DEVICE|no .*device/i],
  ])('%s: the error says so, and auto takes the mock', async (_, options, env, reason) => {
    const out = await run(OPEN, options, env);
    expect(out.error).toMatchObject({ code: 'ERR_CUDALLOC_NO_DEVICE', message: expect.stringMatching(reason) });
    expect(out.auto).toBe('mock');
  });

  test('an ordinal beyond the last device', async () => {
    const out = await run(
      `out.error = caught(() => openDevice({ backend: 'cuda', index: 2 })); out.one = openDevice({ backend: 'cuda', index: 1 }).index;`,
      {
        devices: 2,
      },
    );
    expect(out).toMatchObject({
      error: { code: 'ERR_CUDALLOC_NO_DEVICE', message: expect.stringMatching(/2/) },
      one: 1,
    });
  });
});

test('auto takes the CUDA device where there is one, unless the environment says otherwise', async () => {
  expect(await run(`out.backend = openDevice().backend;`)).toEqual({ backend: 'cuda' });
  expect(await run(`out.backend = openDevice().backend;`, {}, { CUDALLOC_BACKEND: 'mock' })).toEqual({
    backend: 'mock',
  });
});

test('a line of NODE_DEBUG says which device was taken', async () => {
  const text = `import { openDevice } from ${compiled('device/open.js')}; openDevice().close();`;
  const ended = await runProgram(text, { env: { ...standInEnvironment(), NODE_DEBUG: 'cudalloc' } });
  expect(ended.stderr).toMatch(/^CUDALLOC \d+: opened cuda device 0 \(.*16\.00 GiB\)\n$/);
});

test('a capacity limits what is used of the card and is what it reports', async () => {
  const body = `const device = openDevice({ backend: 'cuda', capacity: 100 * MIB });
    const other = openDevice({ backend: 'cuda' });
    out.before = device.memGetInfo(); out.total = device.totalMemory;
    const address = device.malloc(60 * MIB);
    const handles = new Int32Array(10);
    device.memCreate(PAGE, handles);
    out.during = device.memGetInfo();
    out.malloc = caught(() => device.malloc(20 * MIB + 1));
    out.create = caught(() => device.memCreate(PAGE, new Int32Array(11)));
    out.same = device.memGetInfo().free === out.during.free;
    device.memRelease(handles);
    device.free(address);
    out.after = device.memGetInfo();
    out.whole = device.malloc(100 * MIB) > 0;`;
  const out = await run(body);
  const whole = { free: 100 * MIB, total: 100 * MIB };
  expect(out).toMatchObject({
    before: whole,
    total: 100 * MIB,
    during: { free: 20 * MIB, total: 100 * MIB },
    after: whole,
    whole: true,
  });
  expect(out.malloc).toMatchObject({ cudaError: 'cudaErrorMemoryAllocation' });
  expect(out.create).toMatchObject({ cudaError: 'CUDA_ERROR_OUT_OF_MEMORY' });
  expect(out.same).toBe(true);
});

test('a capacity beyond the card is refused', async () => {
  const body = `out.error = caught(() => openDevice({ backend: 'cuda', capacity: 100 * MIB }));
    out.whole = openDevice({ backend: 'cuda', capacity: 64 * MIB }).totalMemory;`;
  const out = await run(body, { capacity: 64 * MIB });
  expect(out).toMatchObject({ error: { code: 'ERR_CUDALLOC_CONFIG' }, whole: 64 * MIB });
});

test('a refused reservation is an address space error, a smaller one works', async () => {
  const body = `const device = openDevice({ backend: 'cuda' });
    out.error = caught(() => device.addressReserve(66 * MIB)); out.small = device.addressReserve(64 * MIB) > 0;`;
  const out = await run(body, { largestReservation: 64 * MIB });
  expect(out).toMatchObject({ error: { code: 'ERR_CUDALLOC_ADDRESS_SPACE' }, small: true });
});

test('a device that is lost says so, closes, and the process ends cleanly', async () => {
  const body = `const device = openDevice({ backend: 'cuda' });
    device.malloc(PAGE); const stream = device.createStream();
    out.error = caught(() => stream.synchronize()); device.close();`;
  const out = await run(body, { fail: 'cuStreamSynchronize:0:CUDA_ERROR_ECC_UNCORRECTABLE' });
  expect(out.error).toMatchObject({ code: 'ERR_CUDALLOC_DEVICE_LOST', cudaError: 'CUDA_ERROR_ECC_UNCORRECTABLE' });
});

test.each([
  ['normal end', '', 0],
  ['process.exit', 'process.exit(3)', 3],
])('the process ends cleanly with everything alive after the driver has shut down: %s', async (_, end, code) => {
  const text = `import { openDevice } from ${compiled('device/open.js')};
    const device = openDevice({ backend: 'cuda' });
    const stream = device.createStream(), event = device.createEvent(), handles = new Int32Array(4);
    const segment = device.malloc(64 * ${MIB}), range = device.addressReserve(16 * ${MIB});
    device.memCreate(2 * ${MIB}, handles);
    device.memMap(range, 2 * ${MIB}, handles);
    event.record(stream);
    globalThis.kept = [device.hostAlloc(4096), device.memcpyHtoDAsync(segment, new Uint8Array(32 * ${MIB}), stream)];
    ${end}`;
  const ended = await runProgram(text, { env: standInEnvironment() });
  expect(ended).toMatchObject({ code, signal: null, stderr: '', stdout: '' });
});

test('a stream of another library can be wrapped, and a stranger is refused', async () => {
  const body = `const device = openDevice({ backend: 'cuda' });
    const own = device.createStream(), wrapped = device.wrapStream(BigInt(own.handle));
    const address = device.malloc(16);
    device.memset(address, 5, 16, wrapped);
    wrapped.synchronize();
    const bytes = new Uint8Array(16);
    device.memcpyDtoH(bytes, address, wrapped);
    out.bytes = bytes.every((byte) => byte === 5);
    wrapped.destroy();
    own.synchronize();
    out.bad = [-1, 0.5, Number.NaN].map((handle) => caught(() => device.wrapStream(handle))?.code);`;
  expect(await run(body)).toMatchObject({ bytes: true, bad: Array(3).fill('ERR_CUDALLOC_INVALID_ADDRESS') });
});
