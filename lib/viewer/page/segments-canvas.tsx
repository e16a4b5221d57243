// The picture of the address map: drawn once a frame when something changed, with what lies under the pointer. Must not know segments' meaning.

import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { formatSize } from '../../units.js';
import { type Extent, extentsOf, LINE, MapLayout, PITCH } from '../segments/layout.js';
import { MapRaster, NOTHING, paintMap } from '../segments/raster.js';
import type { MapState, Run, SegmentState } from '../segments/state.js';
import { useMapScroll } from './segments-scroll.js';
import { isPointed, PointedRun } from './segments-tooltip.js';
import { Tooltip } from './tooltip.js';
import { useSize } from './use-size.js';
import type { ViewProps } from './view-props.js';

export const MOST_ZOOM = 64;

interface Props extends ViewProps {
  readonly map: MapState;
  /** The segment that is pointed out. */
  readonly picked: SegmentState | null;
  readonly moment: number;
  readonly colours: Int32Array;
  readonly shownRanges: Uint8Array | null;
  readonly zoom: number;
  readonly onZoom: (zoom: number) => void;
  /** Told what the picture does not show one by one. */
  readonly onNotes: (notes: readonly string[]) => void;
}

/** For tests: what was drawn, and which row of the map is the first of the canvas. */
export interface DrawnMap extends HTMLCanvasElement {
  drawn?: { readonly raster: MapRaster; readonly map: MapState; readonly top: number; readonly milliseconds: number };
}

export function SegmentsCanvas(props: Props) {
  const { history, state, update, map, moment, shownRanges, zoom, onZoom } = props;
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const size = useSize(frame);
  const extents = useMemo(() => extentsOf(history.lifetimes.ranges, shownRanges), [history, shownRanges]);
  const raster = useMemo(
    () =>
      size.width === 0 ? null : new MapRaster(new MapLayout(extents, { width: size.width, height: size.height, zoom })),
    [extents, size.width, size.height, zoom],
  );
  const scroll = useMapScroll(frame, raster?.layout ?? null, state.address);
  const height = raster === null ? 0 : Math.min(size.height, raster.layout.height);
  useDrawing(canvas, props, { raster, height, top: scroll.top });
  const [hover, setHover] = useState<{ readonly x: number; readonly y: number } | null>(null);
  const idAt = ({ x, y }: { readonly x: number; readonly y: number }): number =>
    raster?.at(x, y + scroll.top) ?? NOTHING;
  const pointed = hover === null ? NOTHING : idAt(hover);
  return (
    <div class="map">
      <div
        class="scroller"
        ref={frame}
        onScroll={scroll.onScroll}
        onWheel={(event) => {
          if (!event.ctrlKey) return;
          event.preventDefault();
          scroll.keep(event.offsetX, event.offsetY);
          onZoom(Math.max(1, Math.min(MOST_ZOOM, zoom * 2 ** (-event.deltaY / 300))));
        }}
      >
        <div style={{ height: `${raster?.layout.height ?? 0}px` }}>
          <canvas
            ref={canvas}
            id="segments"
            role="img"
            tabIndex={0}
            aria-label={labelOf(props)}
            onPointerMove={(event) => setHover({ x: event.offsetX, y: event.offsetY })}
            onPointerLeave={() => setHover(null)}
            onClick={(event) => {
              const run = map.runs[idAt({ x: event.offsetX, y: event.offsetY }) - 1];
              if (run === undefined) return;
              update(run.row === -1 ? { pinned: null, address: run.address } : { pinned: run.row, address: null });
            }}
          />
        </div>
      </div>
      {hover === null || raster === null || !isPointed(pointed) ? null : (
        <Tooltip x={hover.x} y={hover.y}>
          <PointedRun history={history} map={map} layout={raster.layout} moment={moment} id={pointed} />
        </Tooltip>
      )}
    </div>
  );
}

interface Seen {
  readonly raster: MapRaster | null;
  /** Rows of pixels that are seen. */
  readonly height: number;
  readonly top: number;
}

/** Draws once a frame when something changed. */
function useDrawing(
  canvas: { readonly current: HTMLCanvasElement | null },
  props: Props,
  { raster, height, top }: Seen,
): void {
  const { state, palette, map, picked, colours, passing, report, onNotes } = props;
  const image = useMemo(
    () => (raster === null || height === 0 ? null : new ImageData(raster.layout.width, height)),
    [raster?.layout.width, height],
  );
  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext('2d', { alpha: false });
    if (!element || !context || raster === null || image === null) return;
    const handle = requestAnimationFrame(() => {
      const begun = performance.now();
      if (element.width !== image.width || element.height !== image.height) {
        element.width = image.width;
        element.height = image.height;
      }
      raster.draw(map);
      const paints = { palette, blocks: colours, pinned: state.pinned, highlighted: highlightOf(props) };
      paintMap(raster, map, paints, new Int32Array(image.data.buffer), top);
      context.putImageData(image, 0, 0);
      if (picked !== null) outline(context, raster.layout, { ...picked, top, colour: palette.ink });
      (element as DrawnMap).drawn = { raster, map, top, milliseconds: performance.now() - begun };
      onNotes(notesOn(raster, map));
    });
    return () => cancelAnimationFrame(handle);
  }, [raster, image, top, map, palette, colours, state.pinned, state.highlight, picked, passing, report]);
}

interface Outlined extends Extent {
  readonly top: number;
  readonly colour: string;
}

/** Around all its parts, in the space between lines. */
function outline(context: CanvasRenderingContext2D, layout: MapLayout, { address, size, top, colour }: Outlined): void {
  const extent = layout.extentAt(address);
  if (extent === undefined) return;
  context.strokeStyle = colour;
  context.lineWidth = 2;
  for (const { x, line, width } of layout.partsOf(extent, address, size))
    context.strokeRect(x - 1, line * PITCH - top - 1, width + 2, LINE.height + 2);
}

/** What stands out; null: nothing does. */
function highlightOf({ state, history, map, picked, passing, report }: Props): ((run: Run) => boolean) | null {
  const { highlight } = state;
  if (highlight === 'other_stream') {
    // Free memory that the request of the verdict cannot use.
    const request = report === null || report instanceof Error ? null : report.verdict.request;
    const { ranges } = history.lifetimes;
    const small = request !== null && request.rounded <= 1024 * 1024;
    return ({ row, segment }) => {
      if (row !== -1 || request === null) return false;
      const { stream, range } = map.segments[segment] as MapState['segments'][number];
      const pool = ranges.pools[ranges.poolOf[range] as number];
      return (
        stream !== request.stream ||
        pool?.segmentType !== (small ? 'small' : 'large') ||
        pool.poolId.some((part) => part !== 0)
      );
    };
  }
  if (highlight !== null) return ({ kind }) => kind === highlight;
  if (picked !== null) return ({ segment }) => map.segments[segment] === picked;
  if (passing !== null) return ({ row }) => row === -1 || passing[row] === 1;
  return null;
}

function notesOn({ layout, hidden }: MapRaster, { outside }: MapState): string[] {
  const count = (number: number): string => number.toLocaleString('en');
  return [
    `One pixel is ${formatSize(Math.round(layout.bytesPerPixel))}.`,
    ...(layout.thin.count > 0
      ? [
          `${count(layout.thin.count)} segments narrower than a pixel are one box at the end: ${formatSize(layout.thin.bytes)}.`,
        ]
      : []),
    ...(hidden.count > 0
      ? [
          `${count(hidden.count)} blocks and holes are narrower than a pixel and not seen: ${formatSize(hidden.bytes)}. Zoom in to see them.`,
        ]
      : []),
    ...(outside.count > 0
      ? [
          `The recording contradicts itself: ${count(outside.count)} blocks lie outside of what is reserved, or over others, with ${formatSize(outside.bytes)}. They are not drawn.`,
        ]
      : []),
  ];
}

function labelOf({ map, moment }: Props): string {
  const { allocated, pending, stuck, wholly_free: whollyFree } = map.sums;
  return (
    `Map of ${map.segments.length} segments after event ${moment}: ${formatSize(allocated)} allocated, ${formatSize(pending)} pending, ` +
    `${formatSize(stuck)} stuck, ${formatSize(whollyFree)} wholly free.`
  );
}
