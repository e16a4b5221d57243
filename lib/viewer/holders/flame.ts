// The stacks that hold memory as a tree of frames, the outermost at the root, and its layout (Gregg 2016): widths are bytes. What is below a
// node is found when it is asked for, so that only what is wide enough to be drawn costs something. Must not know pictures.

import { type HierarchyRectangularNode, hierarchy, partition } from 'd3-hierarchy';
import type { StackTable } from '../../snapshot/model.js';
import { type FlameFrame, type FlameStacks, NO_STACK } from './flame-stacks.js';
import type { StackSums } from './holders.js';

export interface FlameNode extends FlameFrame {
  /** Of it and everything that it called; with `A`: of what it is compared with, 0 where nothing is. */
  readonly bytes: number;
  readonly count: number;
  readonly bytesA: number;
  readonly countA: number;
  /** The larger side of each stack, summed: as wide as it is drawn, so that what is gone is seen too. */
  readonly width: number;
  /** The widest first. Found when first asked for: linear in the stacks through the node. */
  readonly children: readonly FlameNode[];
}

export interface Side {
  readonly stacks: StackTable;
  readonly sums: StackSums;
}

/** What holds something, by position; `stacks` are numbers of FlameStacks, each there once. */
interface Held {
  readonly all: FlameStacks;
  readonly stacks: readonly number[];
  readonly bytes: readonly number[];
  readonly counts: readonly number[];
  readonly bytesA: readonly number[];
  readonly countsA: readonly number[];
}

/** Linear in stacks, and in frames of those that hold something for the first time. */
export function flameTree(all: FlameStacks, shown: Side, compared: Side | null): FlameNode {
  const stacks: number[] = [];
  const [bytes, counts, bytesA, countsA]: [number[], number[], number[], number[]] = [[], [], [], []];
  const positions = new Map<number, number>();
  const add = ({ stacks: table, sums }: Side, toBytes: number[], toCounts: number[]): void => {
    for (let stack = 0; stack < sums.counts.length; stack++) {
      const count = sums.counts[stack] as number;
      if (count === 0) continue;
      const number = all.numberOf(table, stack);
      let at = positions.get(number);
      if (at === undefined) {
        at = stacks.push(number) - 1;
        positions.set(number, at);
        for (const column of [bytes, counts, bytesA, countsA]) column.push(0);
      }
      toBytes[at] = (toBytes[at] as number) + (sums.bytes[stack] as number);
      toCounts[at] = (toCounts[at] as number) + count;
    }
  };
  add(shown, bytes, counts);
  if (compared !== null) add(compared, bytesA, countsA);
  const held: Held = { all, stacks, bytes, counts, bytesA, countsA };
  return new Node({ name: 'all', file: '', key: 'all' }, held, { members: [...stacks.keys()], depth: 0 });
}

/** Positions of the stacks through a node, and how many of their frames lie above what is below it. */
interface Place {
  readonly members: readonly number[];
  readonly depth: number;
}

class Node implements FlameNode {
  readonly name: string;
  readonly file: string;
  readonly key: string;
  readonly bytes: number;
  readonly count: number;
  readonly bytesA: number;
  readonly countA: number;
  readonly width: number;
  readonly #held: Held;
  readonly #place: Place;
  #children: readonly FlameNode[] | null = null;

  constructor({ name, file, key }: FlameFrame, held: Held, place: Place) {
    [this.name, this.file, this.key, this.#held, this.#place] = [name, file, key, held, place];
    let [bytes, count, bytesA, countA, width] = [0, 0, 0, 0, 0];
    for (const at of place.members) {
      const [b, a] = [held.bytes[at] as number, held.bytesA[at] as number];
      bytes += b;
      bytesA += a;
      width += Math.max(a, b);
      count += held.counts[at] as number;
      countA += held.countsA[at] as number;
    }
    [this.bytes, this.count, this.bytesA, this.countA, this.width] = [bytes, count, bytesA, countA, width];
  }

  get children(): readonly FlameNode[] {
    this.#children ??= this.#open();
    return this.#children;
  }

  #open(): FlameNode[] {
    const { all, stacks } = this.#held;
    const { depth, members } = this.#place;
    const groups = new Map<number, number[]>();
    const none: number[] = [];
    for (const at of members) {
      const stack = stacks[at] as number;
      if (all.depth(stack) <= depth) {
        // It ends here; at the root it has no frame at all.
        if (depth === 0) none.push(at);
        continue;
      }
      const frame = all.frameAt(stack, depth);
      const group = groups.get(frame);
      if (group === undefined) groups.set(frame, [at]);
      else group.push(at);
    }
    const nodes = Array.from(
      groups,
      ([frame, below]) => new Node(all.frame(frame), this.#held, { members: below, depth: depth + 1 }),
    );
    if (none.length > 0) nodes.push(new Node(NO_STACK, this.#held, { members: none, depth: 1 }));
    return nodes.sort((a, b) => b.width - a.width || (a.key < b.key ? -1 : 1));
  }
}

/** A rectangle: from 0 to 1 across, levels down from the node that is shown. */
export interface FlameBox {
  readonly node: FlameNode;
  readonly x0: number;
  readonly x1: number;
  readonly level: number;
  /** Keys from the root down to it, the root's left out. */
  readonly path: readonly string[];
  /** Position among the boxes of that above it; -1 for the first. */
  readonly parent: number;
}

export interface FlameLayout {
  /** Level by level, from the left. */
  readonly boxes: readonly FlameBox[];
  readonly levels: number;
  /** Frames below drawn ones that are narrower than what was asked for: left out, with what is below them. */
  readonly hidden: { readonly frames: number; readonly bytes: number };
}

/** The boxes at least `narrowest` wide, of a node and what is below it. Linear in the stacks through drawn boxes, for each level. */
export function flameLayout(root: FlameNode, path: readonly string[], narrowest: number): FlameLayout {
  const along = nodesAlong(root, path);
  const focus = along.at(-1) as FlameNode;
  const isWide = ({ width }: FlameNode): boolean => width >= narrowest * focus.width;
  const tree = hierarchy(focus, ({ children }) => children.filter(isWide)).sum((node) =>
    // What a node has beyond its drawn children: allocated in itself, or too narrow.
    node.children.reduce((rest, child) => (isWide(child) ? rest - child.width : rest), node.width),
  );
  const boxes: FlameBox[] = [];
  const positions = new Map<HierarchyRectangularNode<FlameNode>, number>();
  let [levels, frames, bytes] = [0, 0, 0];
  partition<FlameNode>()(tree).each((place) => {
    const { data: node, x0, x1, depth: level } = place;
    const parent = place.parent === null ? -1 : (positions.get(place.parent) as number);
    const above = boxes[parent];
    positions.set(place, boxes.length);
    boxes.push({ node, x0, x1, level, parent, path: above === undefined ? pathOf(along) : [...above.path, node.key] });
    levels = Math.max(levels, level + 1);
    for (const child of node.children) {
      if (isWide(child)) continue;
      frames++;
      bytes += child.bytes;
    }
  });
  return { boxes, levels, hidden: { frames, bytes } };
}

/** The nodes from the root down to one; where a path leads nowhere, as far as it leads. */
export function nodesAlong(root: FlameNode, path: readonly string[]): FlameNode[] {
  const nodes = [root];
  for (const step of path) {
    const child = nodes.at(-1)?.children.find(({ key }) => key === step);
    if (child === undefined) break;
    nodes.push(child);
  }
  return nodes;
}

function pathOf(along: readonly FlameNode[]): string[] {
  return along.slice(1).map(({ key }) => key);
}

/** The box beside another: above it, the widest below it, or the next on its level; the same where there is none. Linear in boxes. */
export function neighbour(boxes: readonly FlameBox[], at: number, direction: 'up' | 'down' | 'left' | 'right'): number {
  const box = boxes[at];
  if (box === undefined) return 0;
  switch (direction) {
    case 'up':
      return Math.max(0, box.parent);
    case 'down': {
      const below = boxes.findIndex(({ parent }) => parent === at);
      return below === -1 ? at : below;
    }
    default: {
      const next = at + (direction === 'left' ? -1 : 1);
      return boxes[next]?.level === box.level ? next : at;
    }
  }
}
