// The simulated device and the mock, given the same random operations and failures, do the same: outcome, error, free bytes,
// counted calls. Prints what it covered.

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { openDevice } from '../../lib/device/open.js';
import type { Event, Stream } from '../../lib/device/types.js';
import type { CudallocError, DriverError } from '../../lib/errors.js';
import { MIB, type MockDevice, PAGE } from '../support/devices.js';

const CAPACITY = 64 * MIB;
const FAILABLE = ['cudaMalloc', 'cudaFree', 'cuMemCreate', 'cuMemRelease', 'cuMemMap', 'cuMemUnmap', 'cuMemSetAccess'];
/** The mock makes other calls besides, for work that the simulated device does not do. */
const COMPARED = /^(cuda(?!SetDevice)|cuMem|cuStream(Create|Destroy|Query|WaitEvent)|cuEventDestroy)/;

type Step = { readonly op: string; readonly a: number; readonly b: number; readonly c: number };

/** One device and what was made on it, by number, so that two devices can be driven alike. */
class Driven {
  readonly device: MockDevice;
  readonly segments: number[] = [];
  readonly ranges: { address: number; bytes: number }[] = [];
  readonly runs: { handles: Int32Array; pageBytes: number }[] = [];
  readonly mappings: { address: number; pageBytes: number; count: number }[] = [];
  readonly streams: Stream[];
  readonly events: Event[] = [];

  constructor(backend: 'sim' | 'mock') {
    this.device = openDevice({ backend, capacity: CAPACITY }) as MockDevice;
    this.streams = [this.device.defaultStream];
  }

  /** What the step gave or threw, without the addresses, which differ. */
  step(step: Step): unknown {
    try {
      return this.#run(step);
    } catch (error) {
      const { code, fn, cudaError, cudaCode } = error as CudallocError & Partial<DriverError>;
      if (code === undefined) throw error;
      return { code, fn, cudaError, cudaCode };
    }
  }

  #run({ op, a, b, c }: Step): unknown {
    const { device } = this;
    const range = pick(this.ranges, a);
    const run = pick(this.runs, b) ?? { handles: new Int32Array(0), pageBytes: PAGE };
    // Inside the range: what lies beyond it differs from device to device.
    const at = (range?.address ?? 4096) + (c % ((range?.bytes ?? PAGE) / PAGE)) * PAGE;
    switch (op) {
      case 'malloc':
        this.segments.push(device.malloc(1 + ((a * 7919) % (5 * MIB))));
        return this.segments.length;
      case 'free':
        device.free(pick(this.segments, a) ?? 12345);
        // The mock gives the address out again, the simulated device never does.
        this.segments.splice(a % this.segments.length, 1);
        return this.segments.length;
      case 'reserve': {
        const bytes = (1 + (a % 8)) * PAGE;
        this.ranges.push({ address: device.addressReserve(bytes), bytes });
        return this.ranges.length;
      }
      case 'addressFree':
        device.addressFree(range?.address ?? 12345, range?.bytes ?? PAGE);
        this.ranges.splice(a % this.ranges.length, 1);
        return this.ranges.length;
      case 'create': {
        const made = { handles: new Int32Array(1 + (a % 4)), pageBytes: (1 + (b % 2)) * PAGE };
        device.memCreate(made.pageBytes, made.handles);
        this.runs.push(made);
        return this.runs.length;
      }
      case 'map': {
        const pageBytes = a % 8 === 7 ? 3 * PAGE : run.pageBytes;
        device.memMap(at, pageBytes, run.handles);
        return this.mappings.push({ address: at, pageBytes, count: run.handles.length });
      }
      case 'unmap': {
        const known = pick(this.mappings, a) ?? { address: at, pageBytes: PAGE, count: 1 };
        if (c % 4 === 3) return device.memUnmap(at, known.pageBytes, 1 + (b % 3));
        device.memUnmap(known.address, known.pageBytes, known.count);
        this.mappings.splice(a % this.mappings.length, 1);
        return this.mappings.length;
      }
      case 'release':
        return device.memRelease(run.handles) ?? Array.from(run.handles, (handle) => handle === -1);
      default:
        return this.#runOrdering(op, a, b, c);
    }
  }

  #runOrdering(op: string, a: number, b: number, c: number): unknown {
    const { device } = this;
    const stream = pick(this.streams, a) as Stream;
    const event = pick(this.events, b);
    switch (op) {
      case 'stream':
        this.streams.push(device.createStream());
        return this.streams.length;
      case 'destroyStream':
        return stream.destroy();
      case 'event':
        this.events.push(device.createEvent());
        return this.events.length;
      case 'record':
        return event?.record(stream);
      case 'wait':
        return event === undefined ? undefined : stream.waitEvent(event);
      case 'query':
        return event?.query();
      case 'synchronize':
        return event?.synchronize();
      case 'streamQuery':
        return stream.query();
      case 'streamSynchronize':
        return stream.synchronize();
      case 'deviceSynchronize':
        return device.synchronize();
      case 'hold':
        return device.mock.holdEvents();
      case 'complete':
        return device.mock.completeEvents(c % 3 === 0 ? undefined : stream);
      case 'releaseEvents':
        return device.mock.releaseEvents();
      case 'others':
        return device.mock.takeByOthers(((a % 9) - 4) * MIB);
      case 'fail':
        return device.mock.failNth(FAILABLE[a % FAILABLE.length] as string, 1 + (b % 3), 'CUDA_ERROR_OUT_OF_MEMORY');
      default:
        throw new Error(`unknown operation ${op}`);
    }
  }

  state(): unknown {
    const calls = Object.entries(this.device.driverCalls()).filter(([name, count]) => count > 0 && COMPARED.test(name));
    return { free: this.device.memGetInfo().free, calls: Object.fromEntries(calls.sort()) };
  }
}

function pick<T>(list: readonly T[], n: number): T | undefined {
  return list.length === 0 ? undefined : list[n % list.length];
}

const OPERATIONS = [
  ...[
    'malloc',
    'malloc',
    'free',
    'reserve',
    'reserve',
    'addressFree',
    'create',
    'create',
    'map',
    'map',
    'map',
    'unmap',
    'unmap',
  ],
  ...[
    'release',
    'stream',
    'destroyStream',
    'event',
    'record',
    'record',
    'query',
    'synchronize',
    'streamQuery',
    'others',
    'fail',
  ],
  ...['streamSynchronize', 'deviceSynchronize', 'hold', 'complete', 'wait', 'wait', 'releaseEvents'],
];

test('the simulated device and the mock do the same', () => {
  let steps = 0;
  const outcomes = new Map<string, number>();
  const number = fc.nat(10_000);
  const step = fc.record({ op: fc.constantFrom(...OPERATIONS), a: number, b: number, c: number });
  const property = fc.property(fc.array(step, { minLength: 20, maxLength: 150, size: 'max' }), (sequence) => {
    const [sim, mock] = [new Driven('sim'), new Driven('mock')];
    try {
      for (const next of sequence) {
        const outcome = sim.step(next);
        expect({ step: next, outcome: mock.step(next) }).toEqual({ step: next, outcome });
        expect(mock.state()).toEqual(sim.state());
        steps += 1;
        const { code = 'done' } = (outcome ?? {}) as { code?: string };
        outcomes.set(`${next.op} ${code}`, (outcomes.get(`${next.op} ${code}`) ?? 0) + 1);
      }
    } finally {
      for (const { device } of [sim, mock]) {
        device.mock.clearFailures();
        device.close();
      }
    }
  });
  const seed = 20240;
  fc.assert(property, { seed, numRuns: 300 });
  console.log(`parity: seed ${seed}, ${steps} operations, ${outcomes.size} kinds of outcome`);
  expect(steps).toBeGreaterThan(5000);
  // The random sequences are worth something only if they reach both the good and the bad end of every call.
  for (const op of ['malloc', 'free', 'addressFree', 'create', 'map', 'unmap', 'release']) {
    expect(outcomes.get(`${op} done`) ?? 0, op).toBeGreaterThan(10);
    expect(
      [...outcomes.keys()].some((key) => key.startsWith(`${op} ERR`)),
      op,
    ).toBe(true);
  }
});
