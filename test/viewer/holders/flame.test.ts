// The tree of a flame graph and its boxes.

import { describe, expect, test } from 'vitest';
import { readSnapshot } from '../../../lib/snapshot/files.js';
import { deviceHistory } from '../../../lib/viewer/device-history.js';
import { type FlameNode, flameLayout, flameTree, nodesAlong } from '../../../lib/viewer/holders/flame.js';
import { stackSums } from '../../../lib/viewer/holders/holders.js';
import { programs } from '../../support/programs.js';
import { SHARED_SNAPSHOTS } from '../../support/shared-snapshots.js';
import { smallHistory } from '../../support/small-history.js';

function treeOf(history: ReturnType<typeof smallHistory>, moment = history.events - 1, scriptsOnly = false): FlameNode {
  return flameTree({ stacks: history.snapshot.stacks, sums: stackSums(history, moment, null) }, null, scriptsOnly);
}

function expectSound(node: FlameNode): void {
  const below = node.children.reduce((sum, { bytes }) => sum + bytes, 0);
  expect(below).toBeLessThanOrEqual(node.bytes);
  for (const child of node.children) expectSound(child);
}

test('every node has the bytes of the stacks through it, the root all of them', () => {
  for (const { name, snapshot } of programs(6)) {
    const history = deviceHistory(snapshot, 0);
    const tree = treeOf(history, history.peak);
    expect(tree.bytes, name).toBe(history.lifetimes.allocated[history.peak + 1]);
    expectSound(tree);
  }
});

test('the outermost frames come first', () => {
  const tree = treeOf(smallHistory(), 1);
  const names: string[] = [];
  for (let node: FlameNode | undefined = tree; node !== undefined; node = node.children[0]) names.push(node.name);
  expect(names[0]).toBe('all');
  expect(names.indexOf('smallSnapshot')).toBeLessThan(names.indexOf('forward'));
});

test.skipIf(SHARED_SNAPSHOTS.length === 0)(
  'without machine code a real stack has only frames of scripts, and the same bytes',
  () => {
    const { path } = SHARED_SNAPSHOTS.find(({ name }) => name === 'cuda-training-fragmented.pickle')!;
    const history = deviceHistory(readSnapshot(path), 0);
    const [plain, short] = [treeOf(history, history.peak), treeOf(history, history.peak, true)];
    expect(short.bytes).toBe(plain.bytes);
    const depth = (node: FlameNode): number => 1 + Math.max(0, ...node.children.map(depth));
    const main = (node: FlameNode) => [...node.children].sort((a, b) => b.bytes - a.bytes)[0]!;
    expect(main(short).name).toBe('<module>');
    expect(depth(main(short))).toBeLessThan(depth(plain));
  },
);

describe('boxes', () => {
  test('lie within their parents and beside each other, as wide as their bytes', () => {
    const history = deviceHistory(programs(1)[0]!.snapshot, 0);
    const tree = treeOf(history, history.peak);
    const { boxes, hidden } = flameLayout(tree, [], 0);
    expect(hidden).toBe(0);
    for (const { node, x0, x1, level, path } of boxes) {
      expect((x1 - x0) * tree.bytes).toBeCloseTo(node.bytes, 0);
      expect(path).toHaveLength(level);
      expect(nodesAlong(tree, path).at(-1)).toBe(node);
      const parent = boxes.find((box) => box.level === level - 1 && box.path.every((step, i) => step === path[i]));
      if (level > 0) {
        expect(x0).toBeGreaterThanOrEqual(parent!.x0 - 1e-9);
        expect(x1).toBeLessThanOrEqual(parent!.x1 + 1e-9);
      }
    }
  });

  test('too narrow are counted, not drawn', () => {
    const tree = treeOf(deviceHistory(programs(1)[0]!.snapshot, 0));
    const all = flameLayout(tree, [], 0).boxes.length;
    const { boxes, hidden } = flameLayout(tree, [], 0.2);
    expect(boxes.length + hidden).toBe(all);
    expect(boxes.every(({ x0, x1 }) => x1 - x0 >= 0.2)).toBe(true);
  });

  test('of a frame that was clicked fill the width', () => {
    const tree = treeOf(smallHistory());
    const { boxes } = flameLayout(tree, [0], 0);
    expect([boxes[0]!.x0, boxes[0]!.x1, boxes[0]!.node]).toEqual([0, 1, tree.children[0]]);
    expect(flameLayout(tree, [99, 1], 0).boxes[0]!.node).toBe(tree);
  });

  test('in a comparison are as wide as the larger side', () => {
    const history = smallHistory();
    const side = (moment: number) => ({ stacks: history.snapshot.stacks, sums: stackSums(history, moment, null) });
    const tree = flameTree(side(-1), side(1), false);
    expect([tree.bytes, tree.bytesA]).toEqual([0, history.lifetimes.allocated[2]]);
    expect(flameLayout(tree, [], 0).boxes.length).toBeGreaterThan(2);
  });
});
