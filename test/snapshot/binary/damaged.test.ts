// Damaged bytes of the binary form: always an error of the format that names a byte, or a snapshot; never a crash, a hang, or much memory.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SnapshotFormatError } from '../../../lib/errors.js';
import { MAGIC } from '../../../lib/snapshot/binary/head.js';
import { formatBinarySnapshot } from '../../../lib/snapshot/binary/write-binary.js';
import { formatPickleSnapshot } from '../../../lib/snapshot/pickle/write-pickle.js';
import { parseSnapshot } from '../../../lib/snapshot/read-snapshot.js';
import { oddSnapshot } from '../../support/odd-snapshot.js';
import { pickleOf } from '../../support/pickle-bytes.js';
import { failure, small } from '../../support/small-snapshot.js';

const snapshots = [oddSnapshot(), parseSnapshot(pickleOf(small()))];
const files = snapshots.map((snapshot) => new Uint8Array(Buffer.concat([...formatBinarySnapshot(snapshot)])));
const [first] = files as [Uint8Array];
const HEAD = MAGIC.length + 8;
const headOf = (bytes: Uint8Array): string =>
  new TextDecoder().decode(bytes.subarray(HEAD, HEAD + new DataView(bytes.buffer).getUint32(HEAD - 4, true)));

/** The file with another head. */
function withHead(change: (head: string) => string): Uint8Array {
  const before = headOf(first);
  const after = change(before);
  expect(after).not.toBe(before);
  const [old, text] = [new TextEncoder().encode(before), new TextEncoder().encode(after)];
  const bytes = new Uint8Array(first.length + text.length - old.length);
  bytes.set(first.subarray(0, HEAD));
  bytes.set(text, HEAD);
  bytes.set(first.subarray(HEAD + old.length), HEAD + text.length);
  new DataView(bytes.buffer).setUint32(HEAD - 4, text.length, true);
  return bytes;
}

/** Reads what may be damaged. What can be read can be written. Returns whether it could. */
function reads(bytes: Uint8Array): boolean {
  try {
    const snapshot = parseSnapshot(bytes);
    formatPickleSnapshot(snapshot);
    for (const trace of snapshot.deviceTraces) trace.entries(snapshot.stacks);
    return true;
  } catch (error) {
    expect(error).toBeInstanceOf(SnapshotFormatError);
    expect((error as SnapshotFormatError).position).toBeTypeOf('number');
    expect((error as SnapshotFormatError).position).toBeLessThanOrEqual(bytes.length);
    return false;
  }
}

describe('a damaged file', () => {
  it('cut anywhere is said to end there, also with salvage', () => {
    for (const bytes of files)
      for (let length = 1; length < bytes.length; length++) {
        const cut = bytes.slice(0, length);
        expect(failure(() => parseSnapshot(cut)).position).toBe(length);
        expect(failure(() => parseSnapshot(cut, { salvage: true })).message).toMatch(/the file ends here/);
      }
  });

  it('with bytes behind its end', () => {
    const longer = new Uint8Array(first.length + 1);
    longer.set(first);
    expect(failure(() => parseSnapshot(longer)).position).toBe(first.length);
  });

  it('every byte changed, in several ways', () => {
    for (const bytes of files)
      for (let at = 0; at < bytes.length; at++)
        for (const flip of [0x01, 0x80, 0xff]) {
          const damaged = bytes.slice();
          damaged[at] = bytes[at]! ^ flip;
          reads(damaged);
        }
  });

  it('with many bytes changed', () => {
    const damage = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(fc.constantFrom(...files), damage, (bytes, changes) => {
        const damaged = bytes.slice();
        // Behind the head, whose text would hardly stay JSON.
        const from = HEAD + headOf(bytes).length;
        for (const [at, value] of changes) damaged[from + (at % (bytes.length - from))] = value;
        reads(damaged);
      }),
      { numRuns: 1000 },
    );
  });

  it.each([
    ['more frames than there are', /"frames":2/, '"frames":4000000000'],
    ['more events than there are', /"length":5/, '"length":4000000000'],
    ['more blocks than belong to segments', /"blocks":2/, '"blocks":1'],
    ['more history than belongs to blocks', /"history":2/, '"history":1'],
    ['no stack, not even the empty one', /"stacks":3/, '"stacks":0'],
    ['a negative number of segments', /"segments":1/, '"segments":-1'],
    ['too few names', /"strings":\[[^\]]*\]/, '"strings":[]'],
    ['too few rows of keys', /"layouts":\[\["filename".*?\]\]/, '"layouts":[]'],
    ['an unknown key of a row that is not there', /"frames":\[\[1,/, '"frames":[[2,'],
    ['values of unknown keys that are not there', /\["surprise",\[null,.*?\]\]\]/, '["surprise",[]]]'],
    ['a line that is no number', /"lines":\[\[1,\{"int":"\d+"\}\]\]/, '"lines":[[1,"12"]]'],
    ['unknown keys that are no dict', /"extra":\{"dict":/, '"extra":{"tuple":'],
    ['no JSON', /\{/, '{{'],
  ])('%s', (_, pattern, text) => {
    expect(reads(withHead((head) => head.replace(pattern, text)))).toBe(false);
  });

  it('with a head that is wrong names the field and the byte', () => {
    const { message, position } = failure(() =>
      parseSnapshot(withHead((head) => head.replace('"trace_overflowed":null', '"trace_overflowed":7'))),
    );
    expect(position).toBe(HEAD);
    expect(message).toMatch(/the head is damaged \(trace_overflowed is 7; expected true or false\)/);
  });

  it('of a version that is not known', () => {
    const later = first.slice();
    later[MAGIC.length] = 2;
    const { message, position } = failure(() => parseSnapshot(later));
    expect(position).toBe(MAGIC.length);
    expect(message).toMatch(/version 2 of our binary form; this release reads version 1/);
  });

  it('that begins as another is none', () => {
    const other = first.slice();
    other[3] = 0x20;
    expect(failure(() => parseSnapshot(other)).message).toMatch(
      /no memory snapshot, but data that begin with 93 63 75 20/,
    );
  });
});
