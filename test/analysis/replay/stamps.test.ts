import { afterEach, describe, expect, it } from 'vitest';
import { OwnCalls } from '../../../lib/analysis/replay/own-calls.js';
import { replay } from '../../../lib/analysis/replay/replay.js';
import { Stamps } from '../../../lib/analysis/replay/stamps.js';
import { exitStatus } from '../../../lib/cli/commands/replay.js';
import { renderReplay } from '../../../lib/cli/render/replay.js';
import { parseTrace } from '../../../lib/snapshot/trace.js';
import { MIB, type MockDevice, open } from '../../support/devices.js';

const SMALL_DEVICE = 64 * MIB;
const LARGE_DEVICE = 8192 * MIB;

const made: Stamps[] = [];

afterEach(() => {
  for (const stamps of made.splice(0)) stamps.close();
});

function on(capacity: number): { device: MockDevice; stamps: Stamps } {
  const device = open('mock', { capacity });
  const stamps = new Stamps(device, new OwnCalls(device));
  made.push(stamps);
  return { device, stamps };
}

function flip(device: MockDevice, address: number): void {
  const byte = new Uint8Array(1);
  device.memcpyDtoH(byte, address);
  byte[0] = (byte[0] as number) ^ 0x10;
  device.memcpyHtoD(address, byte);
}

describe.each([
  ['whole blocks on a small device', SMALL_DEVICE],
  ['stamps on a large one', LARGE_DEVICE],
])('%s', (_, capacity) => {
  it.each([1, 3, 15, 16, 63, 64, 65, 127, 128, 129, 4096, MIB, MIB + 1, 2 * MIB, 2 * MIB + 40, 5 * MIB + 7])(
    'are equal when nothing happened: %d bytes',
    (bytes) => {
      const { device, stamps } = on(capacity);
      const address = device.malloc(bytes);
      stamps.write(7, address, bytes);
      stamps.verify(3, 7, address, bytes);
      expect(stamps).toMatchObject({ blocksChecked: 1, mismatchesTotal: 0 });
      expect(stamps.bytesChecked).toBeGreaterThan(0);
      expect(stamps.bytesChecked).toBeLessThanOrEqual(bytes);
    },
  );

  it.each([0, 1, 63, 2 * MIB, 2 * MIB + 63, 4 * MIB + 5, 5 * MIB - 64, 5 * MIB - 1])('notice byte %d', (offset) => {
    const { device, stamps } = on(capacity);
    const address = device.malloc(5 * MIB);
    stamps.write(7, address, 5 * MIB);
    flip(device, address + offset);
    stamps.verify(3, 7, address, 5 * MIB);
    expect(stamps.mismatchesTotal).toBe(1);
    expect(stamps.mismatches).toMatchObject([{ op: 3, id: 7, offset }]);
    for (const { expected, found } of stamps.mismatches) expect(expected ^ found).toBe(0x10);
  });

  it('notice another block at the same place, and the same block at another', () => {
    const { device, stamps } = on(capacity);
    const address = device.malloc(8 * MIB);
    stamps.write(7, address, 4 * MIB);
    stamps.verify(0, 8, address, 4 * MIB);
    expect(stamps.mismatchesTotal).toBeGreaterThan(0);
    const before = stamps.mismatchesTotal;
    device.memcpyDtoD(address + 4 * MIB, address + 2 * MIB, 2 * MIB);
    stamps.verify(1, 7, address + 4 * MIB, 2 * MIB);
    expect(stamps.mismatchesTotal).toBeGreaterThan(before);
  });
});

it('every byte of a small device is covered, of a large one the stamps alone', () => {
  for (const [capacity, noticed] of [
    [SMALL_DEVICE, 1],
    [LARGE_DEVICE, 0],
  ] as const) {
    const { device, stamps } = on(capacity);
    const address = device.malloc(5 * MIB);
    stamps.write(1, address, 5 * MIB);
    flip(device, address + MIB + 12345);
    stamps.verify(0, 1, address, 5 * MIB);
    expect(stamps.mismatchesTotal).toBe(noticed);
  }
});

it('counts all mismatches and keeps the first 16', () => {
  const { device, stamps } = on(SMALL_DEVICE);
  const address = device.malloc(20 * MIB);
  stamps.write(1, address, 20 * MIB);
  for (let i = 0; i < 20; i++) flip(device, address + i * MIB);
  stamps.verify(0, 1, address, 20 * MIB);
  expect(stamps.mismatchesTotal).toBe(20);
  expect(stamps.mismatches).toHaveLength(16);
});

describe('a replay on a device that damages data', () => {
  /** The third comparison reads a wrong byte. */
  function damaged(): ReturnType<typeof replay> {
    const device = open('mock', { capacity: SMALL_DEVICE });
    const read = device.memcpyDtoH.bind(device);
    let reads = 0;
    device.memcpyDtoH = (target, address, stream) => {
      read(target, address, stream);
      if (++reads === 3) target[5] = (target[5] as number) ^ 0xff;
    };
    return replay(parseTrace('a 1 512 0\na 2 512 0\na 3 512 0\na 4 0 0\nf 2\n'), { device, checkData: true });
  }

  it('says which block, and ends with status 1', () => {
    const { report } = damaged();
    expect(report.data_checks).toMatchObject({
      blocks: 3,
      mismatches_total: 1,
      mismatches: [{ op: 5, id: 3, offset: 5 }],
    });
    expect(exitStatus(report, false)).toBe(1);
  });

  it('is told to people', () => {
    const trace = parseTrace('a 1 512 0\n');
    const text = renderReplay('trace', trace.ops, damaged(), null);
    expect(text).toMatch(/^data .*not equal$/m);
    expect(text).toMatch(/operation 5: block 3, byte 5: \d+ was written, \d+ came back/);
  });
});

it('checking data leaves driver calls and decisions as they are', () => {
  const text = `a 1 ${10 * MIB} 0\na 2 512 3\nr 1 3\nh\nf 1\na 3 ${10 * MIB} 0\nu\nf 2\na 4 ${20 * MIB} 0\nN\n`;
  const { data_checks: checks, ...checked } = replay(parseTrace(text), {
    device: open('mock', { capacity: SMALL_DEVICE }),
    conf: 'expandable_segments:True',
    checkData: true,
  }).report;
  const { report } = replay(parseTrace(text), {
    device: open('sim', { capacity: SMALL_DEVICE }),
    conf: 'expandable_segments:True',
  });
  expect(checks?.blocks).toBe(4);
  expect({ ...checked, backend: 'sim' }).toEqual(report);
});
