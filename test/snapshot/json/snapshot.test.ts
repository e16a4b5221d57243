import { describe, expect, it } from 'vitest';
import { SnapshotFormatError } from '../../../lib/errors.js';
import { parseJsonSnapshot } from '../../../lib/snapshot/json/snapshot.js';
import { formatValue, parseValue } from '../../../lib/snapshot/json/values.js';
import { formatJsonSnapshot } from '../../../lib/snapshot/json/write-json.js';
import { DeviceTraceBuilder, type PyValue, StackTable } from '../../../lib/snapshot/model.js';
import { ODD_VALUES, oddSnapshot } from '../../support/odd-snapshot.js';
import { randomFrom } from '../../support/recordings.js';

const text = (): string => [...formatJsonSnapshot(oddSnapshot())].join('');

// biome-ignore lint/suspicious/noExplicitAny: the document is broken on purpose, wherever a test says
type Document = any;
const document = (): Document => JSON.parse(text());

function errorOf(change: (document: Document) => void): SnapshotFormatError {
  const broken = document();
  change(broken);
  try {
    parseJsonSnapshot(broken);
  } catch (error) {
    if (error instanceof SnapshotFormatError) return error;
    throw error;
  }
  throw new Error('it was read');
}

describe('values', () => {
  it.each(ODD_VALUES.map((value) => [formatValue(value).slice(0, 60), value] as const))('%s comes back', (_, value) => {
    const again = parseValue(JSON.parse(formatValue(value)), []);
    expect(again).toEqual(value);
    expect(Object.is(again, value) || typeof value === 'object').toBe(true);
  });

  it.each([
    ['{"int":1}', /x\.int is 1; expected a text/],
    ['{"int":"1.5"}', /x\.int is "1\.5"; expected a whole number as text/],
    ['{"float":"infinity"}', /x\.float is "infinity"; expected nan, inf, -inf, -0/],
    ['{"bytes":"0"}', /x\.bytes is "0"; expected bytes/],
    ['{"tuple":3}', /x\.tuple is 3; expected a list/],
    ['{"dict":[[1]]}', /x\.dict\[0\] is a list of 1; expected a key and a value/],
    ['{"dict":{"a":1}}', /x\.dict is an object; expected a list/],
    ['{"set":[]}', /x is an object with the key "set"; expected int, float, bytes, tuple or dict/],
    ['{}', /x is an object with 0 keys/],
    ['{"int":"1","float":"nan"}', /x is an object with 2 keys/],
    ['[1,{"tuple":[2,{"int":""}]}]', /x\[1\]\.tuple\[1\]\.int is ""/],
  ])('%s is refused with its place', (json, message) => {
    expect(() => parseValue(JSON.parse(json), ['x'])).toThrow(message);
  });

  it('refuses what contains itself, and nesting without end', () => {
    const list: PyValue[] = [];
    list.push(list);
    expect(() => formatValue(list)).toThrow(/contains itself/);
    const deep = JSON.parse(`${'['.repeat(3000)}${']'.repeat(3000)}`);
    expect(() => parseValue(deep, ['x'])).toThrow(SnapshotFormatError);
  });
});

describe('the document', () => {
  it('is told by its first bytes, and has a version', () => {
    expect(text()).toMatch(/^\{"format":"cudalloc-snapshot","version":1,/);
    expect(JSON.parse(text())).toMatchObject({ format: 'cudalloc-snapshot', version: 1 });
  });

  it('comes in pieces', () => {
    const trace = new DeviceTraceBuilder();
    for (let i = 0; i < 100_000; i++) trace.push(i % 3, 2 ** 40 + i, i, 0, 10 ** 15 + i, 0);
    const snapshot = { segments: [], deviceTraces: [trace.build()], stacks: new StackTable(), traceOverflowed: true };
    const pieces = [...formatJsonSnapshot(snapshot)];
    expect(Math.max(...pieces.map(({ length }) => length))).toBeLessThan(100_000);
    expect(parseJsonSnapshot(JSON.parse(pieces.join(''))).deviceTraces[0]!.length).toBe(100_000);
  });

  it('may be written by hand: spaces, stacks that repeat, an order of its own', () => {
    const changed = document();
    changed.stacks.push([...changed.stacks[1]], []);
    changed.segments[0].stack = changed.stacks.length - 2;
    const snapshot = parseJsonSnapshot(Object.fromEntries(Object.entries(changed).reverse()));
    expect(snapshot.stacks.size).toBe(3);
    expect(snapshot.segments[0]!.stack).toBe(1);
  });

  it.each<[string, (document: Document) => void, RegExp]>([
    ['another format', (d) => (d.format = 'x'), /^format is "x"/],
    ['a later version', (d) => (d.version = 2), /version 2 of our JSON; this release reads version 1/],
    ['no version', (d) => delete d.version, /version undefined/],
    ['no segments', (d) => delete d.segments, /^segments is missing; expected a list/],
    ['segments that are no list', (d) => (d.segments = {}), /^segments is an object; expected a list/],
    ['a segment that is none', (d) => (d.segments[0] = null), /^segments\[0\] is null; expected an object/],
    ['a text for a number', (d) => (d.segments[0].stream = '7'), /^segments\[0\]\.stream is "7"; expected a number/],
    ['a number for a truth', (d) => (d.segments[0].is_expandable = 1), /^segments\[0\]\.is_expandable is 1/],
    [
      'an unknown type',
      (d) => (d.segments[0].segment_type = 'huge'),
      /segment_type is "huge"; expected small or large/,
    ],
    [
      'half a pool',
      (d) => (d.segments[0].segment_pool_id = [1]),
      /segment_pool_id is a list of 1; expected two numbers/,
    ],
    [
      'an unknown state',
      (d) => (d.segments[0].blocks[1].state = 'free'),
      /^segments\[0\]\.blocks\[1\]\.state is "free"/,
    ],
    [
      'an unknown stack',
      (d) => (d.segments[0].blocks[1].stack = 99),
      /blocks\[1\]\.stack is 99; expected a whole number/,
    ],
    ['half a stack', (d) => (d.segments[0].stack = 0.5), /^segments\[0\]\.stack is 0\.5/],
    ['an unknown layout', (d) => (d.segments[0].layout = -1), /^segments\[0\]\.layout is -1/],
    ['a key that is none', (d) => (d.layouts[0] = [3]), /^layouts\[0\]\[0\] is 3; expected a text/],
    ['a frame without a name', (d) => delete d.frames[0].name, /^frames\[0\]\.name is missing/],
    ['a line that is none', (d) => (d.frames[0].line = [1]), /^frames\[0\]\.line is a list of 1/],
    ['an unknown frame', (d) => (d.stacks[1] = [99]), /^stacks\[1\]\[0\] is 99/],
    ['a history that is none', (d) => (d.segments[0].blocks[0].history = 'x'), /blocks\[0\]\.history is "x"/],
    ['an address that is none', (d) => (d.segments[0].blocks[0].history[1].addr = null), /history\[1\]\.addr is null/],
    ['no length', (d) => delete d.device_traces[0].length, /^device_traces\[0\]\.length is missing/],
    ['a length of nothing', (d) => (d.device_traces[0].length = -1), /^device_traces\[0\]\.length is -1/],
    [
      'a short column',
      (d) => d.device_traces[0].sizes.pop(),
      /^device_traces\[0\]\.sizes is a list of 4; expected one of 5/,
    ],
    ['a size that is none', (d) => (d.device_traces[0].sizes[3] = null), /sizes\[3\] is null; expected a number/],
    ['an unknown action', (d) => (d.device_traces[0].actions[2] = 200), /^device_traces\[0\]\.actions\[2\] is 200/],
    [
      'actions in another order',
      (d) => d.device_traces[0].action_names.reverse(),
      /action_names\[0\] is "annotate"; expected "alloc"/,
    ],
    ['a time that is none', (d) => (d.device_traces[0].times_us[0] = 'now'), /times_us\[0\] is "now"/],
    [
      'an event with an unknown stack',
      (d) => (d.device_traces[0].stacks[0] = 3),
      /stacks\[0\] is 3; expected a whole number below 3/,
    ],
    ['an unknown row of keys', (d) => (d.device_traces[0].layout_of[1] = 7), /layout_of\[1\] is 7/],
    ['no rows of keys', (d) => (d.device_traces[0].layouts = []), /layouts is a list of 0/],
    ['an unknown value', (d) => (d.device_traces[0].extras.surprise.codes[0] = 9), /extras\.surprise\.codes\[0\] is 9/],
    ['a column of values that is none', (d) => (d.device_traces[0].extras.surprise = 0), /extras\.surprise is 0/],
    ['an odd value of no event', (d) => (d.device_traces[0].odd[0][0] = 5), /odd\[0\]\[0\] is 5/],
    ['a truth that is none', (d) => (d.trace_overflowed = 'no'), /^trace_overflowed is "no"/],
    ['a reason that is none', (d) => (d.salvaged = 1), /^salvaged is 1/],
    ['an extra that is none', (d) => (d.extra = []), /^extra is a list of 0; expected an object/],
  ])('refuses %s, naming the field', (_, change, message) => {
    expect(errorOf(change).message).toMatch(message);
  });

  it('is never read with a TypeError, whatever is put in its place', () => {
    const seed = Number(process.env.CUDALLOC_SEED ?? Date.now() % 2 ** 31);
    const random = randomFrom(seed);
    const replacements = [null, -1, 0.5, 1e300, 'x', [], {}, [[]], true, { int: 'x' }, { dict: [[]] }];
    let refused = 0;
    for (let run = 0; run < 2000; run++) {
      const broken = document();
      let place = broken;
      for (;;) {
        const keys = Object.keys(place);
        const key = keys[Math.floor(random() * keys.length)];
        if (key === undefined) break;
        const inside = place[key];
        if (typeof inside !== 'object' || inside === null || random() < 0.2) {
          if (random() < 0.2) delete place[key];
          else place[key] = replacements[Math.floor(random() * replacements.length)];
          break;
        }
        place = inside;
      }
      try {
        parseJsonSnapshot(JSON.parse(JSON.stringify(broken)));
      } catch (error) {
        refused++;
        expect(error, `CUDALLOC_SEED=${seed}, run ${run}`).toBeInstanceOf(SnapshotFormatError);
      }
    }
    expect(refused).toBeGreaterThan(500);
  });
});
