// What lies under the pointer on the address map: a block, a hole and what pins it, or nothing that is reserved. Must not know how it is drawn.

import { formatSize } from '../../units.js';
import { blockFacts, sizeWords } from '../block-facts.js';
import { poolName } from '../filter.js';
import type { MapLayout } from '../segments/layout.js';
import { NOTHING, THIN, UNMAPPED } from '../segments/raster.js';
import { type MapState, pinnersOf, type SegmentState } from '../segments/state.js';
import { ShortStack } from './short-stack.js';
import type { ViewProps } from './view-props.js';

interface Props extends Pick<ViewProps, 'history'> {
  readonly map: MapState;
  readonly layout: MapLayout;
  readonly moment: number;
  /** Of a pixel of the raster. */
  readonly id: number;
}

/** Whether there is something to say of it. */
export function isPointed(id: number): boolean {
  return id !== NOTHING;
}

export function PointedRun({ history, map, layout, moment, id }: Props) {
  if (id === THIN)
    return (
      <>
        {layout.thin.count.toLocaleString('en')} segments narrower than a pixel: {formatSize(layout.thin.bytes)}
      </>
    );
  if (id === UNMAPPED) return <>Not reserved at this moment, but at another</>;
  const run = map.runs[id - 1];
  const segment = map.segments[run?.segment ?? -1];
  if (run === undefined || segment === undefined) return null;
  const [pinner] = pinnersOf(history.lifetimes, segment);
  return (
    <>
      {run.row === -1 ? (
        <div id="pointed-hole" data-address={run.address} data-size={run.size} data-kind={run.kind}>
          <strong>{formatSize(run.size)} free</strong>,{' '}
          {run.kind === 'stuck' ? 'stuck: its segment is pinned' : 'wholly free: its segment can be given back'}
        </div>
      ) : (
        <>
          <BlockLine id="pointed-run" history={history} row={run.row} moment={moment} />
          <ShortStack history={history} row={run.row} />
        </>
      )}
      <SegmentLine history={history} segment={segment} />
      {run.row !== -1 || pinner === undefined ? null : (
        <div>
          {segment.blocks.length === 1
            ? 'Pinned by one block:'
            : `Pinned by ${segment.blocks.length.toLocaleString('en')} blocks, the largest:`}
          <BlockLine id="pointed-pinner" history={history} row={pinner} moment={moment} />
        </div>
      )}
    </>
  );
}

function SegmentLine({ history, segment }: Pick<Props, 'history'> & { readonly segment: SegmentState }) {
  const { pools, poolOf } = history.lifetimes.ranges;
  const pool = pools[poolOf[segment.range] as number];
  return (
    <div class="faint">
      Segment of {formatSize(segment.size)} at 0x{segment.address.toString(16)}: stream {segment.stream}, pool{' '}
      {pool === undefined ? 'unknown' : poolName(pool)}, {segment.blocks.length.toLocaleString('en')}{' '}
      {segment.blocks.length === 1 ? 'block' : 'blocks'}, {formatSize(segment.free)} free
    </div>
  );
}

function BlockLine({
  id,
  history,
  row,
  moment,
}: Pick<Props, 'history' | 'moment'> & { readonly id: string; readonly row: number }) {
  const facts = blockFacts(history, row, moment);
  return (
    <div id={id} data-row={row} data-address={facts.address} data-size={facts.size}>
      <strong>{sizeWords(facts)}</strong> {facts.site}
      <div class="faint">
        {facts.state}, stream {facts.stream}, age {facts.age}
      </div>
    </div>
  );
}
