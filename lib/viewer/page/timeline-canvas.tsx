// The picture of the timeline: draws it once a frame when something changed, moves it under wheel and pointer, says what lies under the pointer.
// Must not know what a band means.

import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { formatSize } from '../../units.js';
import { blockFacts, sizeWords } from '../block-facts.js';
import type { Grouping } from '../colours.js';
import { TimelineDrawing, type TimelinePicture } from '../timeline/drawing.js';
import { NOTHING, NUMBER, PENDING, SUMMED } from '../timeline/raster.js';
import { momentOf, spanOf } from './keys.js';
import { ShortStack } from './short-stack.js';
import { drawDecorations, MARGIN } from './timeline-decorations.js';
import { useZoom } from './timeline-zoom.js';
import { Tooltip } from './tooltip.js';
import { useSize } from './use-size.js';
import type { ViewProps } from './view-props.js';

interface Props extends ViewProps {
  readonly grouping: Grouping;
  /** Told what the picture does not show one by one. */
  readonly onNotes: (notes: readonly string[]) => void;
}

/** For tests: what was drawn, column by column. */
export interface DrawnCanvas extends HTMLCanvasElement {
  drawn?: TimelinePicture & { readonly milliseconds: number };
}

export function TimelineCanvas(props: Props) {
  const { history, state, update, grouping, passing, palette, capacity, onNotes } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const picture = useRef<TimelinePicture | null>(null);
  const size = useSize(canvas);
  const drawing = useMemo(() => new TimelineDrawing(history), [history]);
  const [hover, setHover] = useState<{ readonly x: number; readonly y: number } | null>(null);
  const span = spanOf(history, state);
  const inner = {
    width: Math.max(1, size.width - MARGIN.left - MARGIN.right),
    height: Math.max(1, size.height - MARGIN.top - MARGIN.bottom),
  };

  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext('2d', { alpha: false });
    if (!element || !context || size.width === 0) return;
    const frame = requestAnimationFrame(() => {
      const begun = performance.now();
      element.width = size.width;
      element.height = size.height;
      const drawn = drawing.draw({
        span,
        axis: state.axis,
        ...inner,
        heights: state.top === null ? null : { bottom: state.bottom ?? 0, top: state.top },
        grouping,
        passing,
        palette,
        capacity,
        pinned: state.pinned,
      });
      picture.current = drawn;
      drawDecorations(context, drawn, { props, size });
      (element as DrawnCanvas).drawn = { ...drawn, milliseconds: performance.now() - begun };
      onNotes(notesOn(drawn));
    });
    return () => cancelAnimationFrame(frame);
  }, [
    drawing,
    size.width,
    size.height,
    span.from,
    span.to,
    state.axis,
    state.top,
    state.bottom,
    grouping,
    passing,
    palette,
    capacity,
    state.pinned,
    state.cursor,
    state.other,
  ]);

  useZoom(canvas, { history, state, update, picture, width: inner.width, height: inner.height });

  const pointed = hover === null ? null : pointedAt(picture.current, hover);
  return (
    <div class="picture">
      <canvas
        ref={canvas}
        id="timeline"
        role="img"
        tabIndex={0}
        aria-label={labelOf(props)}
        onPointerMove={(event) => setHover({ x: event.offsetX - MARGIN.left, y: event.offsetY - MARGIN.top })}
        onPointerLeave={() => setHover(null)}
        onClick={(event) => {
          const at = pointedAt(picture.current, { x: event.offsetX - MARGIN.left, y: event.offsetY - MARGIN.top });
          if (at === null) return;
          update(event.shiftKey ? { other: at.moment } : { cursor: at.moment, pinned: at.row });
        }}
      />
      {pointed === null || hover === null ? null : (
        <Tooltip x={hover.x + MARGIN.left} y={hover.y + MARGIN.top}>
          <Pointed {...props} pointed={pointed} />
        </Tooltip>
      )}
    </div>
  );
}

interface Pointed {
  readonly moment: number;
  readonly row: number | null;
  readonly group: number | null;
  readonly pending: boolean;
}

function pointedAt(
  picture: TimelinePicture | null,
  { x, y }: { readonly x: number; readonly y: number },
): Pointed | null {
  if (picture === null) return null;
  const { raster } = picture;
  if (!(x >= 0 && x < raster.width && y >= 0 && y < raster.height)) return null;
  const id = raster.at(x, raster.height - 1 - Math.floor(y));
  const isSum = (id & SUMMED) !== 0;
  return {
    moment: raster.moments[Math.floor(x)] as number,
    row: id === NOTHING || isSum ? null : (id & NUMBER) - 1,
    group: isSum ? id & NUMBER : null,
    pending: (id & PENDING) !== 0,
  };
}

function Pointed({ history, grouping, pointed }: Props & { readonly pointed: Pointed }) {
  const { allocated, active, reserved } = history.lifetimes;
  const at = pointed.moment + 1;
  const facts = pointed.row === null ? null : blockFacts(history, pointed.row, pointed.moment);
  return (
    <>
      <div id="pointed-moment" data-moment={pointed.moment}>
        {pointed.moment < 0 ? 'Before the first event' : `After event ${pointed.moment.toLocaleString('en')}`}:
        allocated {formatSize(allocated[at] as number)}, active {formatSize(active[at] as number)}, reserved{' '}
        {formatSize(reserved[at] as number)}
      </div>
      {facts === null ? null : (
        <div id="pointed-block" data-row={facts.row} data-address={facts.address} data-size={facts.size}>
          <strong>{sizeWords(facts)}</strong> {facts.site}
          <div class="faint">
            {facts.state === 'pending' ? 'freed, still awaited by another stream; ' : ''}stream {facts.stream}, pool{' '}
            {facts.pool}, age {facts.age}
          </div>
          <ShortStack history={history} row={facts.row} />
        </div>
      )}
      {pointed.group === null ? null : (
        <div>
          Blocks too thin to be drawn alone: {grouping.names[pointed.group]}
          {pointed.pending ? ', pending' : ''}
        </div>
      )}
    </>
  );
}

function notesOn({ raster, axis }: TimelinePicture): string[] {
  const most = raster.summed.reduce((a, b) => Math.max(a, b), 0);
  const perColumn = (axis.span.to - axis.span.from) / axis.width;
  return [
    ...(most > 0
      ? [
          `Blocks under ${formatSize(Math.ceil(raster.thinBelow))} are thinner than a pixel: drawn as sums on top, in paler colours, up to ${formatSize(most)} at a moment.`,
        ]
      : []),
    ...(raster.between > 0
      ? [
          `A column of pixels is about ${Math.max(1, Math.round(perColumn)).toLocaleString('en')} events wide and shows their highest moment; ${raster.between.toLocaleString('en')} blocks live only between the moments shown. Zoom in to see them.`,
        ]
      : []),
  ];
}

function labelOf({ history, capacity, state }: ViewProps): string {
  const { allocated, reserved } = history.lifetimes;
  const moment = momentOf({ history, state });
  const words = (at: number): string =>
    `${formatSize(allocated[at + 1] as number)} allocated of ${formatSize(reserved[at + 1] as number)} reserved`;
  return (
    `Timeline of ${history.events.toLocaleString('en')} events. At the peak, event ${history.peak}: ${words(history.peak)}. ` +
    `At the cursor, event ${moment}: ${words(moment)}. ` +
    `${history.outOfMemories.length} out of memory.${capacity === null ? '' : ` Capacity ${formatSize(capacity)}.`}`
  );
}
