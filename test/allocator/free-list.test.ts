// The free list against a sorted array: the same answers in the same order, whatever was inserted, removed and resized before.

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Block } from '../../lib/allocator/block.js';
import { BlockPool, LARGE } from '../../lib/allocator/block-pool.js';
import { FreeList } from '../../lib/allocator/free-list.js';
import { Segment } from '../../lib/allocator/segment.js';
import { open } from '../support/devices.js';

interface Fixture {
  readonly list: FreeList;
  readonly pool: BlockPool;
  make(segment: number, start: number, units: number): Block;
}

function fixture(segments = 4): Fixture {
  const pool = new BlockPool(LARGE);
  const list = pool.listOf(open('sim').defaultStream);
  // Addresses descend: the order is that of creation all the same.
  const made = Array.from(
    { length: segments },
    (_, sequence) =>
      new Segment({ sequence, order: sequence, address: (segments - sequence) * 2 ** 40, size: 2 ** 40 }, list, null),
  );
  let random = 1;
  const make = (segment: number, start: number, units: number): Block => {
    // Some priorities are equal, which must not matter.
    random = (random * 48271) % 0x7fffffff;
    const block = new Block(made[segment] as Segment, random % 1000);
    return Object.assign(block, { start, units });
  };
  return { list, pool, make };
}

function bySizeThenPlace(a: Block, b: Block): number {
  return a.units - b.units || a.segment.sequence - b.segment.sequence || a.start - b.start;
}

const unitCounts = fc.oneof(
  { weight: 3, arbitrary: fc.integer({ min: 1, max: 40 }) },
  { weight: 3, arbitrary: fc.integer({ min: 1, max: 2 ** 20 }) },
  { weight: 1, arbitrary: fc.integer({ min: 2 ** 20, max: 2 ** 31 + 1000 }) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(fc.nat(32), fc.integer({ min: -1, max: 1 }))
      .map(([bits, step]) => Math.max(1, 2 ** bits + step)),
  },
);
const operations = fc.array(
  fc.tuple(fc.constantFrom('insert', 'insert', 'remove', 'resize', 'search', 'successor'), unitCounts, fc.nat(100_000)),
  { minLength: 1, maxLength: 400, size: 'max' },
);

describe('FreeList', () => {
  test('answers as a sorted array does', () => {
    const property = fc.property(operations, (steps) => {
      const { list, make } = fixture();
      const model: Block[] = [];
      let start = 0;
      for (const [step, units, at] of steps) {
        const block = model[at % Math.max(1, model.length)];
        if (step === 'insert') {
          const added = make(at % 4, start++, units);
          list.insert(added);
          model.push(added);
        } else if (step === 'search') {
          const best = model.filter((other) => other.units >= units).sort(bySizeThenPlace)[0] ?? null;
          expect(list.lowerBound(units) === best).toBe(true);
        } else if (block !== undefined) {
          if (step === 'successor') {
            const next = model.filter((other) => bySizeThenPlace(block, other) < 0).sort(bySizeThenPlace)[0] ?? null;
            expect(list.successor(block) === next).toBe(true);
          } else if (step === 'resize') {
            list.resize(block, units, start++);
            expect([block.units, block.start]).toEqual([units, start - 1]);
          } else {
            list.remove(block);
            expect([block.left, block.right]).toEqual([null, null]);
            model.splice(model.indexOf(block), 1);
          }
        }
      }
      const listed = list.blocks();
      expect(listed.length).toBe(model.length);
      model.sort(bySizeThenPlace);
      expect(listed.findIndex((block, i) => block !== model[i])).toBe(-1);
    });
    fc.assert(property, { numRuns: 150, seed: 11 });
  });

  test('is empty again after everything was removed', () => {
    const { list, make } = fixture();
    const blocks = Array.from({ length: 500 }, (_, i) => make(i % 4, i, ((i * 7919) % 1000) + 1));
    for (const block of blocks) list.insert(block);
    for (const block of blocks) list.remove(block);
    expect(list.lowerBound(1)).toBeNull();
    expect(list.blocks()).toEqual([]);
  });

  test('what one list holds is in no other, used or not', () => {
    const { list, make } = fixture();
    const unused = fixture().list;
    for (const units of [1, 4096, 4097, 2 ** 30]) list.insert(make(0, units, units));
    expect(unused.lowerBound(1)).toBeNull();
    expect(unused.blocks()).toEqual([]);
    const later = fixture();
    expect(later.list.blocks()).toEqual([]);
    later.list.insert(later.make(0, 7, 7));
    later.list.insert(later.make(0, 99, 5000));
    expect(later.list.blocks().map((block) => block.units)).toEqual([7, 5000]);
    expect(list.blocks().map((block) => block.units)).toEqual([1, 4096, 4097, 2 ** 30]);
    expect(unused.blocks()).toEqual([]);
  });

  test('many blocks of one size are listed', () => {
    const { list, make } = fixture();
    const blocks = Array.from({ length: 200_000 }, (_, i) => make(0, i, 8));
    for (const block of blocks.toReversed()) list.insert(block);
    const listed = list.blocks();
    expect(listed.findIndex((block, i) => block !== blocks[i])).toBe(-1);
    expect(listed).toHaveLength(blocks.length);
  });

  test('a list that was never inserted into takes next to no memory', () => {
    const pool = new BlockPool(LARGE);
    const stream = open('sim').defaultStream;
    const bytes = (): number => {
      const { heapUsed, arrayBuffers } = process.memoryUsage();
      return heapUsed + arrayBuffers;
    };
    const before = bytes();
    const lists = Array.from({ length: 2000 }, () => new FreeList(pool, stream));
    expect((bytes() - before) / lists.length).toBeLessThan(4096);
  });

  test('the age of a block starts when it is inserted or resized', () => {
    const { list, pool, make } = fixture();
    const [first, second] = [make(0, 0, 10), make(0, 100, 12)] as const;
    pool.searches = 5;
    list.insert(first);
    pool.searches = 9;
    list.insert(second);
    expect([first.ageBase, second.ageBase]).toEqual([5, 9]);
    pool.searches = 20;
    list.resize(first, 11, 0);
    pool.searches = 21;
    list.resize(second, 900, 100);
    expect([first.ageBase, second.ageBase]).toEqual([20, 21]);
  });

  test('unmapped stretches are kept by position', () => {
    const { list, make } = fixture();
    const stretches = [make(1, 5, 1), make(0, 9, 1), make(1, 1, 1), make(0, 2, 1)];
    for (const stretch of stretches) list.insertUnmapped(stretch);
    const places = (): number[][] => list.unmapped.map((block) => [block.segment.sequence, block.start]);
    expect(places()).toEqual([
      [0, 2],
      [0, 9],
      [1, 1],
      [1, 5],
    ]);
    list.removeUnmapped(stretches[1] as Block);
    expect(places()).toEqual([
      [0, 2],
      [1, 1],
      [1, 5],
    ]);
  });

  test('each stream has its own list, in the order of the streams', () => {
    const device = open('sim');
    const pool = new BlockPool(LARGE);
    const [, second] = [device.createStream(), device.createStream()];
    const last = pool.listOf(second as never);
    const first = pool.listOf(device.defaultStream);
    expect(pool.listOf(device.defaultStream)).toBe(first);
    expect(pool.lists()).toEqual([first, last]);
  });
});
