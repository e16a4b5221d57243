// Live bytes by stack as a flame graph (Gregg 2016): folded text, which every tool for flame graphs reads, or a picture that stands alone.
// Must not know files.

import { formatSize } from '../../units.js';
import type { Holder, ReportFrame } from './format.js';

/** One line a stack, outermost frame first: `main (train.py:3);forward (net.py:9) 1048576`. Linear in frames. */
export function foldedStacks(holders: readonly Holder[]): string {
  const lines = holders.map(({ frames, bytes, no_stack: reason }) => {
    const names =
      frames.length === 0
        ? [`no stack: ${(reason ?? 'not_recorded').replaceAll('_', ' ')}`]
        : frames.map(nameOf).reverse();
    // A semicolon separates frames, a space the bytes.
    return `${names.map((name) => name.replaceAll(/[;\n\r]/g, ',')).join(';')} ${bytes}`;
  });
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`;
}

function nameOf({ name, filename, line }: ReportFrame): string {
  return `${name} (${filename}:${line})`;
}

interface Node {
  readonly name: string;
  bytes: number;
  readonly children: Map<string, Node>;
}

const WIDTH = 1200;
const ROW = 18;
const TOP = 40;
/** Narrower rectangles are left out; their bytes still count in what is below them. */
const NARROWEST = 0.5;
const LETTER = 6.6;

/** A picture in SVG: widths are bytes, the outermost frames at the bottom; each rectangle's text says the rest. Linear in frames. */
export function flamegraphSvg(holders: readonly Holder[], title: string): string {
  const root: Node = { name: 'all', bytes: 0, children: new Map() };
  for (const line of foldedStacks(holders).split('\n')) {
    const cut = line.lastIndexOf(' ');
    if (cut > 0) addStack(root, line.slice(0, cut).split(';'), Number(line.slice(cut + 1)));
  }
  const height = TOP + depthOf(root, 0) * ROW + ROW;
  const rectangles: string[] = [];
  draw(
    root,
    { x: 0, level: 0, scale: root.bytes === 0 ? 0 : WIDTH / root.bytes, height, total: root.bytes },
    rectangles,
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="monospace" font-size="11">`,
    `<rect width="${WIDTH}" height="${height}" fill="#fff"/>`,
    `<text x="8" y="22" font-size="15">${escapeXml(title)} (${formatSize(root.bytes)})</text>`,
    ...rectangles,
    '</svg>',
    '',
  ].join('\n');
}

function addStack(root: Node, names: readonly string[], bytes: number): void {
  root.bytes += bytes;
  let node = root;
  for (const name of names) {
    let child = node.children.get(name);
    if (child === undefined) {
      child = { name, bytes: 0, children: new Map() };
      node.children.set(name, child);
    }
    child.bytes += bytes;
    node = child;
  }
}

function depthOf(node: Node, level: number): number {
  return Math.max(level + 1, ...[...node.children.values()].map((child) => depthOf(child, level + 1)));
}

interface Place {
  readonly x: number;
  readonly level: number;
  readonly scale: number;
  readonly height: number;
  readonly total: number;
}

function draw(node: Node, place: Place, into: string[]): void {
  const { x, level, scale, height, total } = place;
  const width = node.bytes * scale;
  if (width < NARROWEST) return;
  const y = height - (level + 1) * ROW;
  const share = ((100 * node.bytes) / total).toFixed(1);
  const shown = node.name.slice(0, Math.floor((width - 4) / LETTER));
  into.push(
    `<g><title>${escapeXml(node.name)}: ${formatSize(node.bytes)}, ${share} %</title>` +
      `<rect x="${x.toFixed(2)}" y="${y}" width="${width.toFixed(2)}" height="${ROW - 1}" fill="${colourOf(node.name)}"/>` +
      `${shown.length > 2 ? `<text x="${(x + 2).toFixed(2)}" y="${y + 13}">${escapeXml(shown)}</text>` : ''}</g>`,
  );
  let at = x;
  for (const child of [...node.children.values()].sort((a, b) => b.bytes - a.bytes)) {
    draw(child, { ...place, x: at, level: level + 1 }, into);
    at += child.bytes * scale;
  }
}

/** The same name always has the same colour. */
function colourOf(name: string): string {
  let hash = 0;
  for (let i = 0; i < name.length; i++) hash = (Math.imul(hash, 31) + name.charCodeAt(i)) | 0;
  return `hsl(${20 + (Math.abs(hash) % 40)},${60 + (Math.abs(hash >> 8) % 30)}%,${65 + (Math.abs(hash >> 16) % 15)}%)`;
}

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
