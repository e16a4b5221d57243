import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { readSnapshot } from '../../../lib/snapshot/files.js';
import { parseSnapshot } from '../../../lib/snapshot/read-snapshot.js';
import { temporaryFolder } from '../../support/child.js';
import { type Plain, pickleOf } from '../../support/pickle-bytes.js';
import { hasPython } from '../../support/python.js';
import { allProtocols, cutEverywhere, event, failure, partOf, small, written } from '../../support/small-snapshot.js';

describe('cut files', () => {
  const everything = 3 + 4 + 2;

  it('a pickle cut at any byte, and what is salvaged of it', () => {
    for (const protocol of [2, 4] as const) {
      const sizes = cutEverywhere(pickleOf(small(), protocol));
      // More of the file is never less of the snapshot, but for an item that waits for its list.
      sizes.forEach((size, i) => {
        expect(size).toBeGreaterThanOrEqual((sizes[i - 1] ?? 0) - 1);
      });
      expect([sizes[0], sizes.at(-1)]).toEqual([0, everything]);
      expect(new Set(sizes).size).toBe(everything + 1);
    }
  });

  it('a pickle of one device and one segment, whose items are written one by one', () => {
    const bytes = pickleOf({
      segments: [small().segments].flat().slice(0, 1) as Plain,
      device_traces: [[event('alloc', 1, 2)]],
    });
    const sizes = cutEverywhere(bytes);
    expect(sizes.at(-1)).toBe(2);
  });

  it('a bare list of segments', () => {
    expect(cutEverywhere(pickleOf(small().segments as Plain)).at(-1)).toBe(3);
  });

  it('keeps what else was complete', () => {
    const bytes = pickleOf(small());
    const part = parseSnapshot(bytes.slice(0, bytes.length - 1), { salvage: true });
    expect([...part.extra!.keys()]).toEqual(['allocator_settings', 'external_annotations']);
  });

  it.skipIf(!hasPython)('pickles of every protocol, cut at 200 places (needs python3)', () => {
    for (const bytes of allProtocols(pickleOf(small()))) {
      const sizes = cutEverywhere(bytes, Math.ceil(bytes.length / 200));
      expect(sizes.at(-1)).toBeGreaterThanOrEqual(everything - 1);
    }
  });

  it('damage is salvaged up to where it is', () => {
    const bytes = pickleOf(small());
    const at = Buffer.from(bytes).indexOf('free_completed') - 2;
    bytes[at] = 0xff;
    expect(failure(() => parseSnapshot(bytes)).message).toBe(`byte ${at}: opcode 0xff is none of a pickle's`);
    expect(parseSnapshot(bytes, { salvage: true }).salvaged).toBe(
      `damaged, byte ${at}: opcode 0xff is none of a pickle's: 3 events and 3 segments were read`,
    );
  });

  it('gzip, whole, cut and damaged', () => {
    const path = join(temporaryFolder(), 'snapshot.anything');
    const bytes = pickleOf({ ...small(), noise: Array.from({ length: 500 }, (_, i) => Math.sin(i)) });
    const whole = parseSnapshot(bytes);
    const packed = gzipSync(bytes);
    writeFileSync(path, packed);
    expect(written(readSnapshot(path))).toEqual(written(whole));
    writeFileSync(path, packed.subarray(0, packed.length - 100));
    expect(failure(() => readSnapshot(path)).message).toBe(
      `the gzip data are cut: they end at byte ${packed.length - 100} of the file`,
    );
    const part = readSnapshot(path, { salvage: true });
    expect(partOf(part, whole)).toBe(everything);
    expect(part.salvaged).toMatch(/^cut at byte \d+ of the decompressed file: 6 events and 3 segments were read$/);
    writeFileSync(path, packed.subarray(0, packed.length - 4));
    expect(readSnapshot(path, { salvage: true }).salvaged).toBe(
      'the end of the gzip data is missing: all of the snapshot was read',
    );
    const damaged = Uint8Array.from(packed);
    damaged.fill(0xff, 40, 60);
    writeFileSync(path, damaged);
    expect(failure(() => readSnapshot(path, { salvage: true })).message).toMatch(/^the gzip data are damaged \(/);
    writeFileSync(path, packed.subarray(0, 12));
    expect(failure(() => readSnapshot(path, { salvage: true })).message).toBe('byte 0: the file is empty');
  });
});
