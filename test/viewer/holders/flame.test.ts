// The tree of a flame graph and its boxes.

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseConfig } from '../../../lib/allocator/config-parser.js';
import { recordedConf } from '../../../lib/analysis/recording/recorded-config.js';
import { diffSnapshots } from '../../../lib/analysis/report/diff.js';
import type { ReportFrame } from '../../../lib/analysis/report/format.js';
import { holdersOf } from '../../../lib/analysis/report/holders.js';
import { liveBlocks } from '../../../lib/analysis/report/live-blocks.js';
import { readSnapshot } from '../../../lib/snapshot/files.js';
import { type Snapshot, StackTable } from '../../../lib/snapshot/model.js';
import { type DeviceHistory, deviceHistory } from '../../../lib/viewer/device-history.js';
import {
  type FlameNode,
  flameLayout,
  flameTree,
  neighbour,
  nodesAlong,
  type Side,
} from '../../../lib/viewer/holders/flame.js';
import { FlameStacks } from '../../../lib/viewer/holders/flame-stacks.js';
import { stackSums } from '../../../lib/viewer/holders/holders.js';
import { programs } from '../../support/programs.js';
import { SHARED_SNAPSHOTS } from '../../support/shared-snapshots.js';
import { smallHistory } from '../../support/small-history.js';

const TRAINING = SHARED_SNAPSHOTS.find(({ name }) => name === 'cuda-training-fragmented.pickle');

function sideOf(history: DeviceHistory, moment: number) {
  return { stacks: history.snapshot.stacks, sums: stackSums(history, moment, null) };
}

function treeOf(history: DeviceHistory, moment = history.events - 1, scriptsOnly = false): FlameNode {
  return flameTree(new FlameStacks(scriptsOnly), sideOf(history, moment), null);
}

function allNodes(node: FlameNode): FlameNode[] {
  return [node, ...node.children.flatMap(allNodes)];
}

const sumOf = (nodes: readonly FlameNode[], column: 'bytes' | 'bytesA' | 'count' | 'countA' | 'width'): number =>
  nodes.reduce((sum, node) => sum + node[column], 0);

/** By stack, the outermost frame first: what ends in each node. */
function stacksOf(root: FlameNode): Map<string, { bytes: number; count: number; bytesA: number; countA: number }> {
  const found = new Map<string, { bytes: number; count: number; bytesA: number; countA: number }>();
  const visit = (node: FlameNode, above: readonly string[]): void => {
    const path = node === root ? [] : [...above, node.key];
    const own = (column: 'bytes' | 'bytesA' | 'count' | 'countA') => node[column] - sumOf(node.children, column);
    const [bytes, count, bytesA, countA] = [own('bytes'), own('count'), own('bytesA'), own('countA')];
    if (count > 0 || countA > 0) found.set(path.join('\x01'), { bytes, count, bytesA, countA });
    for (const child of node.children) visit(child, path);
  };
  visit(root, []);
  return found;
}

function pathOf(frames: readonly ReportFrame[]): string {
  return [...frames]
    .reverse()
    .map(({ name, filename, line }) => `${name}\0${filename === '' ? '' : `${filename}:${line}`}`)
    .join('\x01');
}

function expectHolders(snapshot: Snapshot, name: string): void {
  const history = deviceHistory(snapshot, 0);
  const config = parseConfig(recordedConf(snapshot));
  for (const moment of new Set([history.events - 1, history.peak])) {
    const event = moment === history.events - 1 ? null : moment;
    const wanted = new Map<string, { bytes: number; count: number }>();
    for (const { frames, bytes, count } of holdersOf(snapshot, 0, liveBlocks(snapshot, 0, event, config))) {
      const before = wanted.get(pathOf(frames)) ?? { bytes: 0, count: 0 };
      wanted.set(pathOf(frames), { bytes: before.bytes + bytes, count: before.count + count });
    }
    const found = [...stacksOf(treeOf(history, moment))].map(
      ([path, { bytes, count }]) => [path, { bytes, count }] as const,
    );
    expect(new Map(found), `${name} ${moment}`).toEqual(wanted);
  }
}

describe('a tree', () => {
  test('has the bytes and blocks of every stack, at the end and the peak', () => {
    for (const { name, snapshot } of programs(10)) expectHolders(snapshot, name);
  });

  test.each(SHARED_SNAPSHOTS)('of the real $name too', ({ name, path }) => {
    expectHolders(readSnapshot(path), name);
  });

  test('has the outermost frames first', () => {
    const names = allNodes(treeOf(smallHistory(), 1)).map(({ name }) => name);
    expect(names[0]).toBe('all');
    expect(names.indexOf('smallSnapshot')).toBeLessThan(names.indexOf('forward'));
  });

  test.skipIf(TRAINING === undefined)(
    'without machine code has only scripts where there are any, and all bytes',
    () => {
      const history = deviceHistory(readSnapshot(TRAINING!.path), 0);
      const [plain, short] = [treeOf(history, history.peak), treeOf(history, history.peak, true)];
      expect([short.bytes, short.count]).toEqual([plain.bytes, plain.count]);
      const main = short.children[0]!;
      expect(main.name).toBe('<module>');
      expect(allNodes(main).every(({ file }) => /\.py:\d+$/.test(file))).toBe(true);
      // Those of a backward pass have no others.
      expect(short.children.some(({ name }) => name === '__clone')).toBe(true);
    },
  );
});

describe('a comparison', () => {
  test('of two files is that of `diff`, stack by stack', () => {
    const real = SHARED_SNAPSHOTS.map(({ path }) => readSnapshot(path));
    const made = programs(3).map(({ snapshot }) => snapshot);
    const pairs = [...made, ...real].map((b, i, all) => [all[(i + 1) % all.length]!, b] as const);
    for (const [a, b] of pairs) {
      const [before, after] = [deviceHistory(a, 0), deviceHistory(b, 0)];
      const tree = flameTree(
        new FlameStacks(false),
        sideOf(after, after.events - 1),
        sideOf(before, before.events - 1),
      );
      const changed = [...stacksOf(tree)].filter(
        ([, { bytes, count, bytesA, countA }]) => bytes !== bytesA || count !== countA,
      );
      // Of device 0: these have no other.
      const wanted = diffSnapshots(a, b).sites.map(
        ({ frames, bytes_a, bytes_b, count_a, count_b }) =>
          [pathOf(frames), { bytes: bytes_b, count: count_b, bytesA: bytes_a, countA: count_a }] as const,
      );
      expect(new Map(changed)).toEqual(new Map(wanted));
    }
  });

  test('is as wide as the larger side of each stack', () => {
    for (const { snapshot } of programs(5)) {
      const history = deviceHistory(snapshot, 0);
      const [middle, last] = [Math.floor(history.events / 2), history.events - 1];
      const tree = flameTree(new FlameStacks(false), sideOf(history, last), sideOf(history, middle));
      let wanted = 0;
      for (const { bytes, bytesA } of stacksOf(tree).values()) wanted += Math.max(bytes, bytesA);
      expect(tree.width).toBe(wanted);
      expect([tree.bytes, tree.bytesA]).toEqual([
        history.lifetimes.allocated[last + 1],
        history.lifetimes.allocated[middle + 1],
      ]);
    }
  });

  test('shows what is gone', () => {
    const history = smallHistory();
    const tree = flameTree(new FlameStacks(false), sideOf(history, -1), sideOf(history, 1));
    expect([tree.bytes, tree.bytesA]).toEqual([0, history.lifetimes.allocated[2]]);
    expect(flameLayout(tree, [], 0).boxes.length).toBeGreaterThan(2);
  });
});

/** Stacks of few different frames, so that they branch, and what they hold on two sides whose tables number them differently. */
const anySides: fc.Arbitrary<{ readonly shown: Side; readonly compared: Side }> = fc
  .array(
    fc.record({
      frames: fc.array(fc.nat(4), { maxLength: 6 }),
      bytes: fc.integer({ min: 1, max: 1000 }),
      bytesA: fc.integer({ min: 1, max: 1000 }),
      on: fc.constantFrom('both', 'shown', 'compared'),
    }),
    { maxLength: 40 },
  )
  .map((all) => ({
    shown: sideFrom(all.filter(({ on }) => on !== 'compared')),
    compared: sideFrom(
      all
        .filter(({ on }) => on !== 'shown')
        .map(({ frames, bytesA }) => ({ frames, bytes: bytesA }))
        .reverse(),
    ),
  }));

function sideFrom(held: readonly { readonly frames: readonly number[]; readonly bytes: number }[]): Side {
  const stacks = new StackTable();
  const numbers = held.map(({ frames }) =>
    stacks.internFrames(frames.map((i) => ({ name: `f${i}`, filename: i % 2 === 0 ? 'model.py' : 'lib.so', line: i }))),
  );
  const [bytes, counts] = [new Float64Array(stacks.size), new Uint32Array(stacks.size)];
  held.forEach((one, i) => {
    bytes[numbers[i]!]! += one.bytes;
    counts[numbers[i]!]! += 1;
  });
  const totalBytes = bytes.reduce((sum, size) => sum + size, 0);
  return {
    stacks,
    sums: { bytes, counts, largest: bytes, totalBytes, totalCount: held.length, beforeBytes: 0 },
  };
}

test('any two sides keep all that they hold, in every node, with and without machine code', () => {
  fc.assert(
    fc.property(anySides, fc.boolean(), ({ shown, compared }, scriptsOnly) => {
      const tree = flameTree(new FlameStacks(scriptsOnly), shown, compared);
      expect([tree.bytes, tree.bytesA]).toEqual([shown.sums.totalBytes, compared.sums.totalBytes]);
      expect([tree.count, tree.countA]).toEqual([shown.sums.totalCount, compared.sums.totalCount]);
      for (const node of allNodes(tree)) {
        expect(new Set(node.children.map(({ key }) => key)).size).toBe(node.children.length);
        for (const column of ['bytes', 'bytesA', 'count', 'countA', 'width'] as const)
          expect(sumOf(node.children, column)).toBeLessThanOrEqual(node[column]);
        expect(node.width).toBeGreaterThanOrEqual(Math.max(node.bytes, node.bytesA));
        expect(node.count + node.countA).toBeGreaterThanOrEqual(node === tree ? 0 : 1);
      }
      if (scriptsOnly) return;
      // The same by hand: stacks by their text.
      const wanted = new Map<string, [number, number]>();
      [shown, compared].forEach(({ stacks, sums }, side) => {
        sums.counts.forEach((count, stack) => {
          if (count === 0) return;
          const path = pathOf(stacks.frames(stack).map((frame) => ({ ...frame, line: Number(frame.line) })));
          const both = wanted.get(path) ?? [0, 0];
          both[side]! += sums.bytes[stack]!;
          wanted.set(path, both);
        });
      });
      const found = [...stacksOf(tree)].map(([path, { bytes, bytesA }]) => [path, [bytes, bytesA]] as const);
      expect(new Map(found)).toEqual(wanted);
    }),
  );
});

describe('boxes', () => {
  const held = [
    { frames: [3, 1, 0], bytes: 400 },
    { frames: [4, 1, 0], bytes: 300 },
    { frames: [2, 0], bytes: 200 },
    { frames: [1, 0], bytes: 60 },
    { frames: [4], bytes: 30 },
    { frames: [], bytes: 10 },
  ];
  const tree = flameTree(new FlameStacks(false), sideFrom(held), null);

  test('are level by level the stacks that hold most, what has no stack beside them', () => {
    const { boxes } = flameLayout(tree, [], 0);
    expect(boxes.map(({ node, level, x0, x1 }) => [level, node.name, x0, x1])).toEqual([
      [0, 'all', 0, 1],
      [1, 'f0', 0, 0.96],
      [1, 'f4', 0.96, 0.99],
      [1, 'no stack', 0.99, 1],
      [2, 'f1', 0, 0.76],
      [2, 'f2', 0.76, 0.96],
      [3, 'f3', 0, 0.4],
      [3, 'f4', 0.4, 0.7],
    ]);
  });

  test('lie within their parents and beside each other, as wide as their bytes', () => {
    fc.assert(
      fc.property(anySides, ({ shown, compared }) => {
        const any = flameTree(new FlameStacks(false), shown, compared);
        const { boxes, hidden, levels } = flameLayout(any, [], 0);
        expect(hidden).toEqual({ frames: 0, bytes: 0 });
        expect(boxes).toHaveLength(allNodes(any).length);
        expect(levels).toBe(Math.max(...boxes.map(({ level }) => level)) + 1);
        const right = new Map<number, number>();
        boxes.forEach(({ node, x0, x1, level, path, parent }, i) => {
          if (any.width > 0) expect((x1 - x0) * any.width).toBeCloseTo(node.width, 3);
          expect(path).toHaveLength(level);
          expect(nodesAlong(any, path).at(-1)).toBe(node);
          if (i > 0) {
            const above = boxes[parent]!;
            expect(above.node.children).toContain(node);
            expect(x0).toBeGreaterThanOrEqual(above.x0 - 1e-9);
            expect(x1).toBeLessThanOrEqual(above.x1 + 1e-9);
          }
          expect(x0).toBeGreaterThanOrEqual((right.get(level) ?? 0) - 1e-9);
          right.set(level, x1);
        });
      }),
    );
  });

  test('are all that are wide enough; the rest is counted with its bytes', () => {
    expect(flameLayout(tree, [], 0.05).hidden).toEqual({ frames: 2, bytes: 40 });
    fc.assert(
      fc.property(anySides, fc.constantFrom(0.01, 0.05, 0.2), ({ shown, compared }, narrowest) => {
        const any = flameTree(new FlameStacks(false), shown, compared);
        const { boxes, hidden } = flameLayout(any, [], narrowest);
        const isWide = ({ width }: FlameNode) => width >= narrowest * any.width;
        expect(new Set(boxes.map(({ node }) => node))).toEqual(new Set(allNodes(any).filter(isWide)));
        const left = boxes.flatMap(({ node }) => node.children).filter((node) => !isWide(node));
        expect(hidden).toEqual({ frames: left.length, bytes: sumOf(left, 'bytes') });
      }),
    );
  });

  test('of a frame that was chosen fill the width, where it holds something', () => {
    const [f0] = tree.children;
    const path = [f0!.key, f0!.children[1]!.key];
    const [first] = flameLayout(tree, path, 0).boxes;
    expect([first!.x0, first!.x1, first!.node.name, first!.path]).toEqual([0, 1, 'f2', path]);
    // At a moment at which others come first it is still that frame, or what is left of the way to it.
    const later = flameTree(new FlameStacks(false), sideFrom([{ frames: [2, 0], bytes: 9 }, ...held.slice(4)]), null);
    expect(flameLayout(later, path, 0).boxes[0]!.node).toMatchObject({ name: 'f2', bytes: 9 });
    const gone = flameTree(new FlameStacks(false), sideFrom(held.slice(3)), null);
    expect(flameLayout(gone, path, 0).boxes[0]!).toMatchObject({ node: { name: 'f0', bytes: 60 }, path: [f0!.key] });
    expect(flameLayout(tree, ['nowhere', ...path], 0).boxes[0]!.node).toBe(tree);
  });

  test('of nothing are one', () => {
    const nothing = treeOf(smallHistory(), -1);
    expect(flameLayout(nothing, [], 0.01)).toMatchObject({ levels: 1, hidden: { frames: 0, bytes: 0 } });
    expect(nothing.bytes).toBe(0);
  });

  test('have neighbours above, below and beside them', () => {
    const { boxes } = flameLayout(tree, [], 0);
    const from = (name: string, direction: Parameters<typeof neighbour>[2]) =>
      boxes[
        neighbour(
          boxes,
          boxes.findIndex(({ node }) => node.name === name),
          direction,
        )
      ]!.node.name;
    expect(from('f1', 'up')).toBe('f0');
    expect(from('f1', 'down')).toBe('f3');
    expect(from('f1', 'right')).toBe('f2');
    expect(from('f2', 'left')).toBe('f1');
    // Where there is none, it stays.
    expect([from('all', 'up'), from('all', 'left'), from('f2', 'right'), from('f3', 'down')]).toEqual([
      'all',
      'all',
      'f2',
      'f3',
    ]);
  });
});
