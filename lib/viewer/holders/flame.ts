// The stacks that hold memory as a tree of frames, the outermost at the root, and its layout (Gregg 2016): widths are bytes. Must not know pictures.

import { hierarchy, partition } from 'd3-hierarchy';
import { scriptExtension } from '../../snapshot/call-site.js';
import type { Frame, StackTable } from '../../snapshot/model.js';
import type { StackSums } from './holders.js';

export interface FlameNode {
  readonly name: string;
  readonly file: string;
  /** Of it and everything that it called. */
  bytes: number;
  count: number;
  /** What it is compared with. */
  bytesA: number;
  readonly children: FlameNode[];
}

interface Building extends FlameNode {
  readonly byKey: Map<string, Building>;
}

export interface Side {
  readonly stacks: StackTable;
  readonly sums: StackSums;
}

/**
 * Linear in frames of the stacks that hold something.
 * @param scriptsOnly leave out frames of machine code, of stacks that have others
 */
export function flameTree(shown: Side, compared: Side | null, scriptsOnly: boolean): FlameNode {
  const root = nodeOf('all', '');
  addAll(root, shown, scriptsOnly, 'bytes');
  if (compared !== null) addAll(root, compared, scriptsOnly, 'bytesA');
  return root;
}

function nodeOf(name: string, file: string): Building {
  return { name, file, bytes: 0, count: 0, bytesA: 0, children: [], byKey: new Map() };
}

function addAll(root: Building, { stacks, sums }: Side, scriptsOnly: boolean, side: 'bytes' | 'bytesA'): void {
  sums.counts.forEach((count, stack) => {
    if (count === 0) return;
    const bytes = sums.bytes[stack] as number;
    const add = (node: FlameNode): void => {
      node[side] += bytes;
      if (side === 'bytes') node.count += count;
    };
    let node = root;
    add(node);
    for (const frame of framesOf(stacks, stack, scriptsOnly)) {
      const file = frame.filename === '' ? '' : `${frame.filename}:${frame.line}`;
      const key = `${frame.name}\0${file}`;
      let child = node.byKey.get(key);
      if (child === undefined) {
        child = nodeOf(frame.name, file);
        node.byKey.set(key, child);
        node.children.push(child);
      }
      add(child);
      node = child;
    }
  });
}

/** From the outermost inwards. */
function framesOf(
  stacks: StackTable,
  stack: number,
  scriptsOnly: boolean,
): Pick<Frame, 'name' | 'filename' | 'line'>[] {
  const frames = stacks.frames(stack).reverse();
  if (frames.length === 0) return [{ name: 'no stack', filename: '', line: 0 }];
  const scripts = scriptsOnly ? frames.filter(({ filename }) => scriptExtension(filename) !== null) : [];
  return scripts.length > 0 ? scripts : frames;
}

/** A rectangle: from 0 to 1 across, levels down from the root. */
export interface FlameBox {
  readonly node: FlameNode;
  readonly x0: number;
  readonly x1: number;
  readonly level: number;
  /** Positions of children from the root down to it. */
  readonly path: readonly number[];
}

export interface FlameLayout {
  readonly boxes: readonly FlameBox[];
  readonly levels: number;
  /** Boxes that are narrower than what was asked for: left out, their bytes are in what is above them. */
  readonly hidden: number;
}

/**
 * The boxes at least `narrowest` wide, of a node and what is below it. A width is the larger of both sides, so that what is gone is seen too.
 * Linear in nodes.
 */
export function flameLayout(root: FlameNode, path: readonly number[], narrowest: number): FlameLayout {
  const focus = nodeAt(root, path);
  const tree = hierarchy(focus, ({ children }) => children);
  // The width of a node is its own: children that together hold less leave room, as what was allocated in the node itself does.
  tree.each((node) => {
    (node as { value?: number }).value = Math.max(node.data.bytes, node.data.bytesA);
  });
  tree.eachAfter((node) => {
    const sum = (node.children ?? []).reduce((all, child) => all + (child.value ?? 0), 0);
    (node as { value?: number }).value = Math.max(node.value ?? 0, sum);
  });
  tree.sort((a, b) => (b.value ?? 0) - (a.value ?? 0));
  const placed = partition<FlameNode>()(tree);
  const boxes: FlameBox[] = [];
  let hidden = 0;
  let levels = 0;
  placed.each((node) => {
    if (node.x1 - node.x0 < narrowest) {
      hidden++;
      return;
    }
    levels = Math.max(levels, node.depth + 1);
    const below = node.ancestors().reverse().slice(1);
    const steps = below.map((one) => (one.parent as typeof node).data.children.indexOf(one.data));
    boxes.push({ node: node.data, x0: node.x0, x1: node.x1, level: node.depth, path: [...path, ...steps] });
  });
  return { boxes, levels, hidden };
}

/** The nodes from the root down to one; what a path says wrongly is left out. */
export function nodesAlong(root: FlameNode, path: readonly number[]): FlameNode[] {
  const nodes = [root];
  for (const step of path) {
    const child = nodes.at(-1)?.children[step];
    if (child === undefined) break;
    nodes.push(child);
  }
  return nodes;
}

function nodeAt(root: FlameNode, path: readonly number[]): FlameNode {
  return nodesAlong(root, path).at(-1) as FlameNode;
}
