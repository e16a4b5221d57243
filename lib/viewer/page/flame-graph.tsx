// A flame graph: widths are bytes, a click goes closer. What is too narrow to be seen is counted. Must not know where the tree comes from.

import { useMemo, useRef, useState } from 'preact/hooks';
import { formatSize } from '../../units.js';
import { type FlameBox, type FlameNode, flameLayout, nodesAlong } from '../holders/flame.js';
import { mixed, type Palette } from '../palette.js';
import { useSize } from './timeline-canvas.js';
import { Tooltip } from './tooltip.js';

const ROW = 19;
/** Pixels of a letter, about. */
const LETTER = 6.8;

interface Props {
  readonly tree: FlameNode;
  readonly compares: boolean;
  readonly palette: Palette;
}

export function FlameGraph({ tree, compares, palette }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const { width } = useSize(frame);
  const [path, setPath] = useState<readonly number[]>([]);
  const [hover, setHover] = useState<{ readonly box: FlameBox; readonly x: number; readonly y: number } | null>(null);
  const along = useMemo(() => nodesAlong(tree, path), [tree, path]);
  // Of another moment a path may lead nowhere.
  const valid = useMemo(() => path.slice(0, along.length - 1), [path, along]);
  const layout = useMemo(() => flameLayout(tree, valid, width === 0 ? 1 : 1.5 / width), [tree, valid, width]);
  const change = (node: FlameNode): string =>
    compares ? `, ${node.bytes >= node.bytesA ? '+' : ''}${formatSize(node.bytes - node.bytesA)}` : '';
  return (
    <div class="flame" ref={frame} id="flame" data-bytes={tree.bytes}>
      <nav class="crumbs" aria-label="Where the flame graph is">
        {along.map((node, i) => (
          <button type="button" class="link" key={i} onClick={() => setPath(valid.slice(0, i))}>
            {node.name}
          </button>
        ))}
        {layout.hidden > 0 ? (
          <span class="faint">
            {layout.hidden.toLocaleString('en')} frames are too narrow to be drawn; click one above them to go closer.
          </span>
        ) : null}
      </nav>
      <svg
        width={width}
        height={layout.levels * ROW}
        role="img"
        aria-label={`Flame graph of ${formatSize(tree.bytes)}`}
        onPointerLeave={() => setHover(null)}
      >
        {layout.boxes.map((box) => {
          const [x, wide] = [box.x0 * width, (box.x1 - box.x0) * width];
          const letters = Math.floor((wide - 6) / LETTER);
          return (
            // biome-ignore lint/a11y/noStaticElementInteractions: frames wide enough to be read are reached with Tab and opened with Enter
            <g
              key={box.path.join()}
              transform={`translate(${x.toFixed(2)} ${box.level * ROW})`}
              tabIndex={wide > 60 ? 0 : -1}
              data-bytes={box.node.bytes}
              data-name={box.node.name}
              onClick={() => setPath(box.path)}
              onKeyDown={(event) => {
                if (event.key === 'Enter') setPath(box.path);
              }}
              onPointerMove={(event) => {
                const around = frame.current?.getBoundingClientRect();
                if (around !== undefined)
                  setHover({ box, x: event.clientX - around.left, y: event.clientY - around.top });
              }}
            >
              <rect width={Math.max(0.5, wide - 1)} height={ROW - 1} fill={colourOf(box.node, compares, palette)} />
              {letters > 2 ? (
                <text x={4} y={ROW - 6} fill="#1b1f24">
                  {box.node.name.slice(0, letters)}
                </text>
              ) : null}
            </g>
          );
        })}
      </svg>
      {hover === null ? null : (
        <Tooltip x={hover.x} y={hover.y}>
          <strong>{hover.box.node.name}</strong> <span class="faint">{hover.box.node.file}</span>
          <div>
            {formatSize(hover.box.node.bytes)}
            {change(hover.box.node)} in {hover.box.node.count.toLocaleString('en')} blocks,{' '}
            {((100 * hover.box.node.bytes) / (tree.bytes || 1)).toFixed(1)} %
          </div>
        </Tooltip>
      )}
    </div>
  );
}

/** The same name always has the same colour; in a comparison red has grown and blue has shrunk. */
function colourOf({ name, bytes, bytesA }: FlameNode, compares: boolean, { background }: Palette): string {
  if (compares) {
    const share = (bytes - bytesA) / Math.max(bytes, bytesA, 1);
    return mixed('#d9dde2', share > 0 ? '#e5603f' : '#4b8fd6', Math.min(1, Math.abs(share)));
  }
  let hash = 0;
  for (let i = 0; i < name.length; i++) hash = (Math.imul(hash, 31) + name.charCodeAt(i)) | 0;
  const warm = mixed('#f2b04e', '#e8804f', (Math.abs(hash) % 100) / 100);
  return mixed(warm, background, 0.1);
}
