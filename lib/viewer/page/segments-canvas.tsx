// The picture of the address map: drawn once a frame when something changed, with what lies under the pointer. Must not know segments' meaning.

import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { formatSize } from '../../units.js';
import { blockFacts, sizeWords } from '../block-facts.js';
import { poolName } from '../filter.js';
import { extentsOf, MapLayout } from '../segments/layout.js';
import { MapRaster, NOTHING, paintMap, THIN, UNMAPPED } from '../segments/raster.js';
import { type MapState, pinnersOf, type Run } from '../segments/state.js';
import { useSize } from './timeline-canvas.js';
import { Tooltip } from './tooltip.js';
import type { ViewProps } from './view-props.js';

interface Props extends ViewProps {
  readonly map: MapState;
  readonly moment: number;
  readonly colours: Int32Array;
  readonly shownRanges: Uint8Array | null;
  readonly zoom: number;
  readonly onZoom: (zoom: number) => void;
  readonly onNotes: (notes: readonly string[]) => void;
}

/** For tests: what was drawn. */
export interface DrawnMap extends HTMLCanvasElement {
  drawn?: { readonly raster: MapRaster; readonly map: MapState; readonly milliseconds: number };
}

export function SegmentsCanvas(props: Props) {
  const { history, state, update, palette, map, colours, shownRanges, zoom, onZoom, onNotes, passing } = props;
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const size = useSize(frame);
  const extents = useMemo(() => extentsOf(history.lifetimes.ranges, shownRanges), [history, shownRanges]);
  const raster = useMemo(
    () =>
      size.width === 0 ? null : new MapRaster(new MapLayout(extents, { width: size.width, height: size.height, zoom })),
    [extents, size.width, size.height, zoom],
  );
  const pixels = useMemo(
    () => (raster === null ? null : new Int32Array(raster.layout.width * raster.layout.height)),
    [raster],
  );
  const [hover, setHover] = useState<{ readonly x: number; readonly y: number } | null>(null);
  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext('2d', { alpha: false });
    if (!element || !context || raster === null || pixels === null) return;
    const handle = requestAnimationFrame(() => {
      const begun = performance.now();
      const { width, height } = raster.layout;
      if (element.width !== width || element.height !== height) {
        element.width = width;
        element.height = height;
      }
      raster.draw(map);
      paintMap(
        raster,
        map,
        { palette, blocks: colours, pinned: state.pinned, highlighted: highlightOf(props) },
        pixels,
      );
      context.putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), width, height), 0, 0);
      (element as DrawnMap).drawn = { raster, map, milliseconds: performance.now() - begun };
      onNotes(notesOn(raster));
    });
    return () => cancelAnimationFrame(handle);
  }, [raster, pixels, map, palette, colours, state.pinned, state.highlight, state.address, passing, props.report]);

  const run = (event: { readonly offsetX: number; readonly offsetY: number }): Run | null => {
    const id = raster?.at(event.offsetX, event.offsetY) ?? NOTHING;
    return id > 0 ? (map.runs[id - 1] ?? null) : null;
  };
  return (
    <div
      class="map"
      ref={frame}
      onWheel={(event) => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        onZoom(Math.max(1, Math.min(64, zoom * 2 ** (-event.deltaY / 300))));
      }}
    >
      <canvas
        ref={canvas}
        id="segments"
        role="img"
        aria-label={labelOf(props)}
        onPointerMove={(event) => setHover({ x: event.offsetX, y: event.offsetY })}
        onPointerLeave={() => setHover(null)}
        onClick={(event) => {
          const found = run(event);
          if (found !== null)
            update({ pinned: found.row === -1 ? null : found.row, address: found.row === -1 ? found.address : null });
        }}
      />
      {hover === null || raster === null ? null : (
        <Pointed {...props} id={raster.at(hover.x, hover.y)} x={hover.x} y={hover.y} />
      )}
    </div>
  );
}

/** What stands out; null: nothing does. */
function highlightOf({ state, history, map, passing, report }: Props): ((run: Run) => boolean) | null {
  const { highlight, address } = state;
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
  if (address !== null) {
    const segment = map.segments.findIndex((one) => one.address <= address && address < one.address + one.size);
    return segment === -1 ? null : (run) => run.segment === segment;
  }
  if (passing !== null) return ({ row }) => row === -1 || passing[row] === 1;
  return null;
}

function notesOn({ layout, hidden }: MapRaster): string[] {
  return [
    `One pixel is ${formatSize(Math.round(layout.bytesPerPixel))}.`,
    ...(layout.thin.count > 0
      ? [
          `${layout.thin.count.toLocaleString('en')} segments narrower than a pixel are one box at the end: ${formatSize(layout.thin.bytes)}.`,
        ]
      : []),
    ...(hidden.count > 0
      ? [
          `${hidden.count.toLocaleString('en')} blocks and holes are narrower than a pixel and not seen: ${formatSize(hidden.bytes)}. Zoom in to see them.`,
        ]
      : []),
  ];
}

function Pointed({
  history,
  map,
  moment,
  id,
  x,
  y,
}: Props & { readonly id: number; readonly x: number; readonly y: number }) {
  if (id === NOTHING) return null;
  if (id === THIN)
    return (
      <Tooltip x={x} y={y}>
        All segments narrower than a pixel
      </Tooltip>
    );
  if (id === UNMAPPED)
    return (
      <Tooltip x={x} y={y}>
        Not reserved at this moment, but at another
      </Tooltip>
    );
  const run = map.runs[id - 1];
  if (run === undefined) return null;
  const segment = map.segments[run.segment] as MapState['segments'][number];
  const pool = history.lifetimes.ranges.pools[history.lifetimes.ranges.poolOf[segment.range] as number];
  const [pinner] = pinnersOf(history.lifetimes, segment);
  return (
    <Tooltip x={x} y={y}>
      {run.row === -1 ? (
        <div id="pointed-hole" data-address={run.address} data-size={run.size} data-kind={run.kind}>
          <strong>{formatSize(run.size)} free</strong>,{' '}
          {run.kind === 'stuck' ? 'stuck: its segment is pinned' : 'wholly free: its segment can be given back'}
        </div>
      ) : (
        <BlockLine history={history} row={run.row} moment={moment} />
      )}
      <div class="faint">
        Segment of {formatSize(segment.size)} at 0x{segment.address.toString(16)}: stream {segment.stream}, pool{' '}
        {pool === undefined ? 'unknown' : poolName(pool)}, {segment.blocks.length} blocks, {formatSize(segment.free)}{' '}
        free
      </div>
      {run.row !== -1 || pinner === undefined ? null : (
        <div>
          Pinned most by: <BlockLine history={history} row={pinner} moment={moment} />
        </div>
      )}
    </Tooltip>
  );
}

function BlockLine({ history, row, moment }: Pick<Props, 'history' | 'moment'> & { readonly row: number }) {
  const facts = blockFacts(history, row, moment);
  return (
    <div id="pointed-run" data-row={row} data-address={facts.address} data-size={facts.size}>
      <strong>{sizeWords(facts)}</strong> {facts.site}
      <div class="faint">
        {facts.state}, stream {facts.stream}, age {facts.age}
      </div>
    </div>
  );
}

function labelOf({ map, moment }: Props): string {
  const { allocated, pending, stuck, wholly_free: whollyFree } = map.sums;
  return (
    `Map of ${map.segments.length} segments after event ${moment}: ${formatSize(allocated)} allocated, ${formatSize(pending)} pending, ` +
    `${formatSize(stuck)} stuck, ${formatSize(whollyFree)} wholly free.`
  );
}
