// The table of addresses against a Map, under load that makes it grow, collide and shift back.

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { AddressTable } from '../../lib/allocator/address-table.js';
import type { Block } from '../../lib/allocator/block.js';

/** The table asks a block only for its address. */
function blockAt(address: number): Block {
  return { address } as unknown as Block;
}

function remove(table: AddressTable, address: number): void {
  const index = table.indexOf(address);
  expect(index).not.toBe(-1);
  table.deleteAt(index);
}

test('behaves as a Map through growth, collisions and removals', () => {
  // Few distinct low bits and some far apart: many share a home.
  const addresses = fc.oneof(
    fc.integer({ min: 1, max: 4000 }).map((n) => n * 512),
    fc.integer({ min: 1, max: 4000 }).map((n) => 0x7f0000000000 + n * 2 ** 21),
    fc.integer({ min: 1, max: 500 }).map((n) => n * 2 ** 41),
  );
  const operations = fc.array(fc.tuple(fc.constantFrom('set', 'set', 'delete', 'get'), addresses), {
    minLength: 100,
    maxLength: 5000,
    size: 'max',
  });
  fc.assert(
    fc.property(operations, (steps) => {
      const table = new AddressTable();
      const model = new Map<number, Block>();
      for (const [step, address] of steps) {
        const known = model.get(address);
        if (step === 'set' && known === undefined) {
          const block = blockAt(address);
          table.set(address, block);
          model.set(address, block);
        } else if (step === 'delete' && known !== undefined) {
          remove(table, address);
          model.delete(address);
        } else if (table.get(address) !== (known ?? null)) {
          throw new Error(`${address} is wrong`);
        }
      }
      expect(table.size).toBe(model.size);
      for (const [address, block] of model) expect(table.get(address) === block).toBe(true);
    }),
    { numRuns: 30, seed: 7 },
  );
});

test('removes in any order without losing a neighbour', () => {
  const table = new AddressTable();
  const addresses = Array.from({ length: 3000 }, (_, i) => (i + 1) * 512);
  for (const address of addresses) table.set(address, blockAt(address));
  const order = addresses.map((address, i) => ({ address, key: (i * 7919) % 3001 })).sort((a, b) => a.key - b.key);
  order.forEach(({ address }, i) => {
    remove(table, address);
    const next = order[i + 1];
    if (next !== undefined) expect(table.get(next.address)?.address).toBe(next.address);
    expect(table.get(address)).toBeNull();
  });
  expect(table.size).toBe(0);
});

test.each([-512, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 60, 511])('%d is not there', (address) => {
  const table = new AddressTable();
  table.set(512, blockAt(512));
  expect(table.indexOf(address)).toBe(-1);
  expect(table.get(address)).toBeNull();
});

test('0 is no address', () => {
  expect(new AddressTable().get(0)).toBeNull();
});
