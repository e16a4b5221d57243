// A flame graph: widths are bytes, a click goes closer. What is too narrow to be seen is counted. Must not know where the tree comes from.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { formatSize } from '../../units.js';
import { type FlameBox, type FlameNode, flameLayout, neighbour, nodesAlong } from '../holders/flame.js';
import { mixed, type Palette } from '../palette.js';
import { Tooltip } from './tooltip.js';
import { useSize } from './use-size.js';

const ROW = 19;
/** Pixels of a letter, about. */
const LETTER = 7.3;
/** Pixels; narrower frames are left out. */
const NARROWEST = 3;

/** Of a comparison. The letters on them are dark in light and dark pages. */
const [SAME, GROWN, SHRUNK] = ['#d9dde2', '#e5603f', '#4b8fd6'];

const ARROWS = { ArrowUp: 'up', ArrowDown: 'down', ArrowLeft: 'left', ArrowRight: 'right' } as const;

interface Props {
  readonly tree: FlameNode;
  readonly compares: boolean;
  readonly palette: Palette;
}

export function FlameGraph(props: Props) {
  const { tree, compares } = props;
  const frame = useRef<HTMLDivElement>(null);
  const { width } = useSize(frame);
  const [wanted, setPath] = useState<readonly string[]>([]);
  // The frame that was chosen may hold nothing at another moment: what is left of the way to it is shown, and it comes back.
  const along = useMemo(() => nodesAlong(tree, wanted), [tree, wanted]);
  const path = useMemo(() => along.slice(1).map(({ key }) => key), [along]);
  const layout = useMemo(() => flameLayout(tree, path, width === 0 ? 1 : NARROWEST / width), [tree, path, width]);
  const [hover, setHover] = useState<Place | null>(null);
  const [at, setAt] = useState(0);
  const chosen = layout.boxes[at] === undefined ? 0 : at;
  const goTo = (next: readonly string[]): void => {
    setPath(next);
    setAt(0);
    setHover(null);
  };
  const pointed = hover === null ? undefined : nodeAt(tree, hover.path);
  const told = pointed ?? (layout.boxes[chosen]?.node as FlameNode);
  return (
    <div class="flame-frame">
      <nav class="crumbs" aria-label="Where the flame graph is">
        {along.map((node, i) => (
          <button type="button" class="link" key={i} title={node.file} onClick={() => goTo(path.slice(0, i))}>
            {node.name}
          </button>
        ))}
      </nav>
      <div class="flame" ref={frame} id="flame" data-bytes={tree.bytes} data-hidden-bytes={layout.hidden.bytes}>
        <Boxes
          {...props}
          boxes={layout.boxes}
          levels={layout.levels}
          width={width}
          at={chosen}
          onChoose={goTo}
          onMove={setAt}
          onHover={(place) => setHover(place)}
        />
      </div>
      <p class="told" id="flame-told" data-bytes={told.bytes} data-count={told.count}>
        <Told node={told} all={tree} compares={compares} />
      </p>
      <Notes compares={compares} hidden={layout.hidden} />
      {hover === null || pointed === undefined ? null : (
        <Tooltip x={hover.x} y={hover.y}>
          <Told node={pointed} all={tree} compares={compares} />
        </Tooltip>
      )}
    </div>
  );
}

/** A frame under the pointer, and where that is in the element around. */
interface Place {
  readonly path: readonly string[];
  readonly x: number;
  readonly y: number;
}

function nodeAt(tree: FlameNode, path: readonly string[]): FlameNode | undefined {
  return nodesAlong(tree, path)[path.length];
}

interface BoxesProps extends Props {
  readonly boxes: readonly FlameBox[];
  readonly levels: number;
  readonly width: number;
  /** Position of the box that the keyboard is at. */
  readonly at: number;
  readonly onChoose: (path: readonly string[]) => void;
  readonly onMove: (at: number) => void;
  readonly onHover: (place: Place | null) => void;
}

function Boxes(props: BoxesProps) {
  const { tree, boxes, levels, width, at, onChoose, onMove, onHover } = props;
  const element = useRef<HTMLDivElement>(null);
  const moved = useRef(false);
  useEffect(() => {
    if (moved.current) element.current?.querySelector('.at')?.scrollIntoView({ block: 'nearest' });
    moved.current = false;
  }, [at]);
  const key = (event: KeyboardEvent): void => {
    const arrow = ARROWS[event.key as keyof typeof ARROWS];
    if (arrow !== undefined) {
      moved.current = true;
      onMove(neighbour(boxes, at, arrow));
    } else if (event.key === 'Enter') onChoose(boxes[at]?.path ?? []);
    else if (event.key === 'Backspace') onChoose(boxes[0]?.path.slice(0, -1) ?? []);
    else return;
    // Elsewhere arrows move the moment.
    event.stopPropagation();
    event.preventDefault();
  };
  return (
    <div
      ref={element}
      class="flame-tree"
      role="tree"
      tabIndex={0}
      aria-label={`Flame graph of ${formatSize(tree.bytes)}. Arrows go from frame to frame, Enter shows one alone, Backspace leads out.`}
      aria-activedescendant={`flame-${at}`}
      onKeyDown={key}
      onClick={(event) => {
        const box = boxes[positionOf(event.target)];
        if (box !== undefined) onChoose(box.path);
      }}
      onPointerMove={(event) => {
        const box = boxes[positionOf(event.target)];
        const around = element.current?.closest('.flame-frame')?.getBoundingClientRect();
        if (box === undefined || around === undefined) onHover(null);
        else onHover({ path: box.path, x: event.clientX - around.left, y: event.clientY - around.top });
      }}
      onPointerLeave={() => onHover(null)}
    >
      <svg width={width} height={levels * ROW} role="presentation">
        {boxes.map((box, i) => (
          <Box key={i} {...props} box={box} number={i} isAt={i === at} />
        ))}
      </svg>
    </div>
  );
}

function positionOf(target: EventTarget | null): number {
  const box = target instanceof Element ? target.closest('g') : null;
  return box === null ? -1 : Number(box.dataset.box);
}

interface BoxProps extends Props {
  readonly box: FlameBox;
  readonly number: number;
  readonly width: number;
  readonly isAt: boolean;
}

function Box({ box, number, width, isAt, compares, palette }: BoxProps) {
  const { node, level, x0, x1 } = box;
  const wide = (x1 - x0) * width;
  const letters = Math.floor((wide - 6) / LETTER);
  // What is read aloud is the one that the keyboard is at; the others would only cost.
  const described = isAt
    ? {
        class: 'at',
        role: 'treeitem' as const,
        'aria-level': level + 1,
        'aria-label': `${node.name} ${node.file} ${formatSize(node.bytes)}`,
      }
    : {};
  return (
    <g
      id={`flame-${number}`}
      {...described}
      transform={`translate(${(x0 * width).toFixed(2)} ${level * ROW})`}
      data-box={number}
      data-bytes={node.bytes}
      data-name={node.name}
    >
      <rect width={Math.max(0.5, wide - 1)} height={ROW - 1} fill={colourOf(node, compares, palette)} />
      {letters > 2 ? (
        <text x={4} y={ROW - 6} fill="#1b1f24">
          {node.name.slice(0, letters)}
        </text>
      ) : null}
    </g>
  );
}

function Told({
  node,
  all,
  compares,
}: {
  readonly node: FlameNode;
  readonly all: FlameNode;
  readonly compares: boolean;
}) {
  const { name, file, bytes, count, bytesA } = node;
  const share = ((100 * bytes) / (all.bytes || 1)).toFixed(1);
  const change = bytes - bytesA;
  return (
    <>
      <strong>{name}</strong> <span class="faint">{file}</span>
      <br />
      {formatSize(bytes)} in {count.toLocaleString('en')} blocks, {share} %
      {compares ? `; before ${formatSize(bytesA)}, ${change > 0 ? '+' : ''}${formatSize(change)}` : ''}
    </>
  );
}

function Notes({
  compares,
  hidden,
}: {
  readonly compares: boolean;
  readonly hidden: { readonly frames: number; readonly bytes: number };
}) {
  return (
    <ul class="notes" id="flame-notes">
      {hidden.frames === 0 ? null : (
        <li>
          {hidden.frames.toLocaleString('en')} {hidden.frames === 1 ? 'frame' : 'frames'} with{' '}
          {formatSize(hidden.bytes)} {hidden.frames === 1 ? 'is' : 'are'} too narrow to be drawn: a click on the frame
          above goes closer.
        </li>
      )}
      {compares ? (
        <li>
          <i style={{ background: GROWN }} /> has grown, <i style={{ background: SHRUNK }} /> has shrunk,{' '}
          <i style={{ background: SAME }} /> is as before. Each stack is as wide as the larger side.
        </li>
      ) : null}
    </ul>
  );
}

/** The same name always has the same colour; in a comparison the deeper, the more of it is new or gone. */
function colourOf({ name, bytes, bytesA }: FlameNode, compares: boolean, { background }: Palette): string {
  if (compares) {
    const share = (bytes - bytesA) / Math.max(bytes, bytesA, 1);
    return mixed(SAME, share > 0 ? GROWN : SHRUNK, Math.min(1, Math.abs(share)));
  }
  let hash = 0;
  for (let i = 0; i < name.length; i++) hash = (Math.imul(hash, 31) + name.charCodeAt(i)) | 0;
  const warm = mixed('#f2b04e', '#e8804f', (Math.abs(hash) % 100) / 100);
  return mixed(warm, background, 0.1);
}
