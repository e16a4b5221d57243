import { afterEach, describe, expect, it } from 'vitest';
import type { ReplayReport } from '../../../lib/analysis/replay/format.js';
import { replay } from '../../../lib/analysis/replay/replay.js';
import { SimDevice } from '../../../lib/device/sim.js';
import type { Device } from '../../../lib/device/types.js';
import { DeviceLostError, UnsupportedError } from '../../../lib/errors.js';
import { parseTrace } from '../../../lib/snapshot/trace.js';
import { MIB, thrownBy } from '../../support/devices.js';

const opened: SimDevice[] = [];

afterEach(() => {
  for (const device of opened.splice(0)) device.close();
});

function simulated(capacity = 64 * MIB): SimDevice {
  const device = new SimDevice({ capacity });
  opened.push(device);
  return device;
}

function run(text: string, options: Partial<Parameters<typeof replay>[1]> = {}): ReplayReport {
  return replay(parseTrace(text), { device: simulated(), ...options }).report;
}

const FORTY = 40 * MIB;

describe('what goes into the report', () => {
  it('an empty trace', () => {
    const report = run('');
    expect(report).toMatchObject({
      ops: 0,
      allocs: [],
      trace: [],
      timeline: [],
      segments: [],
      device_used: 0,
      ooms: 0,
    });
  });

  it('what it was run with', () => {
    const report = run('a 1 8 0\n', { conf: 'expandable_segments:True', policy: 'default' });
    expect(report).toMatchObject({
      config: 'expandable_segments:True',
      policy: 'default',
      backend: 'sim',
      capacity: 64 * MIB,
    });
  });

  it('goes on after an out of memory, and explains the first', () => {
    const result = replay(parseTrace(`a 1 ${FORTY} 0\na 2 ${FORTY} 0\nf 2\na 3 512 0\na 4 ${FORTY} 0\n`), {
      device: simulated(),
    });
    expect(result.report.allocs).toEqual([[0, 0], 'oom', [1, 0], 'oom']);
    expect(result.report.errors.map(({ op, kind }) => [op, kind])).toEqual([
      [1, 'oom'],
      [4, 'oom'],
    ]);
    expect(result.report).toMatchObject({ ooms: 2, errors_total: 2 });
    expect(result.firstOutOfMemory?.op).toBe(1);
    expect(result.firstOutOfMemory?.error.verdict.kind).toBe('full');
  });

  it('counts all errors and keeps the first 64', () => {
    const text = Array.from({ length: 100 }, (_, i) => `a ${i + 1} ${80 * MIB} 0\n`).join('');
    const report = run(text);
    expect(report.errors_total).toBe(100);
    expect(report.ooms).toBe(100);
    expect(report.errors.map(({ op }) => op)).toEqual(Array.from({ length: 64 }, (_, op) => op));
  });

  it('refused settings are errors, and change nothing', () => {
    const report = run(`C max_split_size_mb:1\nC nonsense:1\nF 1.5\na 1 ${FORTY} 0\n`);
    expect(report.errors).toEqual([0, 1, 2].map((op) => ({ op, kind: 'error' })));
    expect(report).toMatchObject({ errors_total: 3, ooms: 0, allocs: [[0, 0]] });
  });

  it('an error is not that of a later allocation', () => {
    expect(run('F 7\na 1 0 0\n').allocs).toEqual([null]);
    expect(run(`a 1 ${80 * MIB} 0\na 2 0 0\n`).allocs).toEqual(['oom', null]);
    expect(run(`a 1 ${80 * MIB} 0\na 2 0 0\n`, { from: 1 }).allocs).toEqual([null]);
  });

  it('operations on what is not live do nothing', () => {
    const report = run('f 9\nr 9 1\nb 9\na 1 0 0\nf 1\nb 1\na 2 8 0\nf 2\nf 2\nr 2 3\n');
    expect(report.errors_total).toBe(0);
    expect(report.queries).toEqual([]);
    expect(report.allocs).toEqual([null, [0, 0]]);
    expect(report.stats.allocation.all).toMatchObject({ current: 0, allocated: 1, freed: 1 });
  });

  it('streams go by their numbers in the trace, whatever order they come in', () => {
    const report = run('a 1 512 70\na 2 512 5\na 3 512 0\n');
    expect(report.segments.map(({ at, stream }) => [at[0], stream])).toEqual([
      [0, 70],
      [1, 5],
      [2, 0],
    ]);
    expect(report.trace.filter(([, action]) => action === 'alloc').map((event) => event[5])).toEqual([70, 5, 0]);
  });

  it('says nothing about ranges when there are more than 5,000', () => {
    const cycles = Array.from({ length: 5001 }, (_, i) => `a ${i + 1} ${FORTY} 0\nf ${i + 1}\ne\n`);
    expect(run(cycles.slice(0, 5000).join('')).ranges).toHaveLength(5000);
    expect(run(cycles.join('')).ranges).toBeNull();
  });

  it('has about 200 points in the timeline, the last operation among them', () => {
    const report = run(Array.from({ length: 1001 }, (_, i) => `a ${i + 1} 512 0\n`).join(''));
    expect(report.timeline).toHaveLength(167);
    expect(report.timeline[0]?.[0]).toBe(5);
    expect(report.timeline.at(-1)?.[0]).toBe(1000);
  });

  it('driver calls are those of the allocator, not of the replay', () => {
    const report = run(`a 1 ${FORTY} 0\nN\nN\nN\n`);
    expect(report.driver_calls.cudaMemGetInfo).toBe(0);
    expect(report.checkpoints.map(({ device_used }) => device_used)).toEqual([FORTY, FORTY, FORTY]);
    expect(report.driver_calls.cudaMalloc).toBe(1);
  });

  it('driver calls are listed by name in an order that stays', () => {
    expect(Object.keys(run('').driver_calls)).toEqual([
      'cudaMalloc',
      'cudaMalloc_failed',
      'cudaFree',
      'cudaMemGetInfo',
      'cudaEventCreate',
      'cudaEventRecord',
      'cudaEventQuery',
      'cudaEventSynchronize',
      'cudaStreamSynchronize',
      'cudaDeviceSynchronize',
      'cuMemAddressReserve',
      'cuMemAddressFree',
      'cuMemCreate',
      'cuMemCreate_failed',
      'cuMemRelease',
      'cuMemMap',
      'cuMemUnmap',
      'cuMemSetAccess',
    ]);
  });
});

describe('a part of a trace', () => {
  const text = `a 1 ${FORTY} 0\nf 1\na 2 512 0\na 3 ${10 * MIB} 0\nN\nf 2\nf 3\n`;

  it('covers operations from and up to', () => {
    const report = run(text, { from: 2, to: 5 });
    expect(report).toMatchObject({
      ops: 3,
      from: 2,
      to: 5,
      allocs: [
        [1, 0],
        [0, 0],
      ],
    });
    expect(new Set(report.trace.map(([op]) => op))).toEqual(new Set([2, 3]));
    expect(report.checkpoints.map(({ op }) => op)).toEqual([4]);
    expect(report.timeline.map(([op]) => op)).toEqual([2, 3, 4]);
    expect(report.driver_calls.cudaMalloc).toBe(1);
  });

  it('has the statistics of a trace with P and A before it', () => {
    const lines = text.split('\n');
    const whole = run([...lines.slice(0, 2), 'P', 'A', ...lines.slice(2)].join('\n'));
    expect(run(text, { from: 2 }).stats).toEqual(whole.stats);
    expect(run(text, { from: 2 }).segments).toEqual(whole.segments);
  });

  it('reports no error of what came before, but of what follows', () => {
    const failing = `a 1 ${80 * MIB} 0\nF 7\na 2 ${80 * MIB} 0\n`;
    expect(run(failing, { from: 2 })).toMatchObject({ ooms: 1, errors_total: 1, allocs: ['oom'] });
    expect(run(failing, { from: 3 })).toMatchObject({ ooms: 0, errors_total: 0, allocs: [], ops: 0 });
  });
});

describe('the device', () => {
  it('is left as it was found', () => {
    const device = simulated();
    const { malloc, free, addressReserve, addressFree } = device;
    run(`h\na 1 ${FORTY} 0\na 2 512 3\nr 2 4\nf 2\n`, { device, conf: 'expandable_segments:True' });
    expect(device.memGetInfo().free).toBe(64 * MIB);
    expect({ ...device }).not.toHaveProperty('malloc');
    expect([device.malloc, device.free, device.addressReserve, device.addressFree]).toEqual([
      malloc,
      free,
      addressReserve,
      addressFree,
    ]);
    const event = device.createEvent();
    event.record(device.defaultStream);
    expect(event.query()).toBe(true);
  });

  it('is left as it was found also when it failed', () => {
    const device = simulated();
    device.mock.failNth('cudaMalloc', 2, 'CUDA_ERROR_INVALID_VALUE');
    expect(() => run(`a 1 512 0\na 2 ${FORTY} 0\n`, { device })).toThrow(/cudaMalloc/);
    expect(device.memGetInfo().free).toBe(64 * MIB);
    expect({ ...device }).not.toHaveProperty('malloc');
  });

  it('that is lost ends the replay', () => {
    const device = simulated();
    device.mock.failNth('cudaMalloc', 1, 'CUDA_ERROR_ILLEGAL_ADDRESS');
    expect(thrownBy(() => run('a 1 512 0\n', { device }))).toBeInstanceOf(DeviceLostError);
  });

  it('has to be able to hold events where the trace does', () => {
    const device: Device = simulated();
    Object.defineProperty(device, 'mock', { value: undefined });
    const refusal = thrownBy(() => run('a 1 512 0\nh\n', { device }));
    expect(refusal).toBeInstanceOf(UnsupportedError);
    expect((refusal as Error).message).toMatch(/operation 1 of the trace \("h"\)/);
    expect(run('a 1 512 0\n', { device }).allocs).toHaveLength(1);
  });

  it('without bytes cannot check data', () => {
    expect(thrownBy(() => run('a 1 512 0\n', { checkData: true }))).toBeInstanceOf(UnsupportedError);
  });
});
