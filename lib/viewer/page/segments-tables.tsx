// The address map in numbers: bytes of each kind, the segments with most free memory, and what pins one of them. Must not know pictures.

import { useMemo } from 'preact/hooks';
import { formatSize } from '../../units.js';
import { blockFacts, sizeWords } from '../block-facts.js';
import { poolName } from '../filter.js';
import type { Palette } from '../palette.js';
import { kindColour, STRIPE } from '../segments/raster.js';
import { type MapState, pinnersOf, type RunKind, type SegmentState } from '../segments/state.js';
import type { ViewProps } from './view-props.js';

/** Segments that are listed. */
const LISTED = 100;
/** Blocks that pin a segment, of those that are listed. */
const PINNERS = 20;

const KINDS: readonly (readonly [kind: RunKind, words: string])[] = [
  ['allocated', 'allocated, in the colours beside'],
  ['pending', 'pending: freed, another stream may still use it'],
  ['stuck', 'stuck: free, in segments that live blocks pin'],
  ['wholly_free', 'wholly free: in segments without a live block'],
];

interface MapProps extends ViewProps {
  readonly map: MapState;
}

export function KindTable({ map, palette, state }: MapProps) {
  const { sums } = map;
  const reserved = sums.allocated + sums.pending + sums.stuck + sums.wholly_free;
  const isFiltered = state.stream !== null || state.pool !== null;
  return (
    <table class="legend" id="segments-kinds">
      <caption>{isFiltered ? 'Reserved memory of the chosen stream and pool' : 'Reserved memory'}</caption>
      <tbody>
        {KINDS.map(([kind, words]) => (
          <tr key={kind}>
            <th scope="row">
              <i style={{ background: swatch(kind, palette) }} />
              {words}
            </th>
            <td class="number" id={`segments-${kind}`} data-bytes={sums[kind]}>
              {formatSize(sums[kind])}
            </td>
          </tr>
        ))}
        <tr>
          <th scope="row">
            <i style={{ background: palette.unmapped }} />
            not reserved now, but at another moment
          </th>
          <td />
        </tr>
        <tr>
          <th scope="row">reserved</th>
          <td class="number" id="segments-reserved" data-bytes={reserved}>
            {formatSize(reserved)}
          </td>
        </tr>
      </tbody>
    </table>
  );
}

/** As it is drawn: pending memory is striped. */
function swatch(kind: RunKind, palette: Palette): string {
  const colour = kindColour(kind, palette);
  if (kind !== 'pending') return colour;
  const own = kindColour('allocated', palette);
  return `repeating-linear-gradient(90deg, ${own} 0 ${STRIPE}px, ${colour} 0 ${2 * STRIPE}px)`;
}

export function SegmentTable({ map, history, update }: MapProps) {
  const { ranges } = history.lifetimes;
  const sorted = useMemo(() => [...map.segments].sort((a, b) => b.free - a.free || a.address - b.address), [map]);
  const rest = sorted.slice(LISTED);
  return (
    <table id="segment-table">
      <caption>Segments, those with most free memory first</caption>
      <thead>
        <tr>
          <th scope="col">Address</th>
          <th scope="col">Stream, pool</th>
          {['Size', 'Allocated', 'Pending', 'Free', 'Largest hole', 'Blocks'].map((name) => (
            <th scope="col" class="number" key={name}>
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {sorted.slice(0, LISTED).map((segment) => {
          const pool = ranges.pools[ranges.poolOf[segment.range] as number];
          return (
            <tr key={segment.address}>
              <th scope="row">
                <button
                  type="button"
                  class="link"
                  onClick={() => update({ address: segment.address, pinned: null, highlight: null })}
                >
                  0x{segment.address.toString(16)}
                </button>
              </th>
              <td>
                {segment.stream}, {pool === undefined ? 'unknown' : poolName(pool)}
              </td>
              {[segment.size, segment.allocated, segment.pending, segment.free, segment.largestHole].map((bytes, i) => (
                <td class="number" key={i} data-bytes={bytes}>
                  {formatSize(bytes)}
                </td>
              ))}
              <td class="number">{segment.blocks.length.toLocaleString('en')}</td>
            </tr>
          );
        })}
      </tbody>
      {rest.length === 0 ? null : (
        <tfoot>
          <tr>
            <td colSpan={8} class="faint">
              and {rest.length.toLocaleString('en')} more with{' '}
              {formatSize(rest.reduce((sum, { free }) => sum + free, 0))} free
            </td>
          </tr>
        </tfoot>
      )}
    </table>
  );
}

/** What keeps a segment from being given back. */
export function HoleDetails({
  history,
  segment,
  moment,
  update,
}: ViewProps & { readonly segment: SegmentState; readonly moment: number }) {
  const pinners = pinnersOf(history.lifetimes, segment);
  return (
    <section
      class="details"
      id="hole"
      aria-label="The picked segment"
      data-address={segment.address}
      data-free={segment.free}
    >
      <h2>
        Segment of {formatSize(segment.size)} at 0x{segment.address.toString(16)}
      </h2>
      <p>
        {formatSize(segment.free)} free, the largest hole {formatSize(segment.largestHole)}.{' '}
        {pinners.length === 0
          ? 'No live block: it can be given back.'
          : pinners.length === 1
            ? 'Pinned by one block:'
            : `Pinned by ${pinners.length.toLocaleString('en')} blocks; one would be enough:`}
      </p>
      <ol>
        {pinners.slice(0, PINNERS).map((row) => {
          const facts = blockFacts(history, row, moment);
          return (
            <li key={row}>
              <button type="button" class="link" onClick={() => update({ pinned: row })}>
                {sizeWords(facts)}
              </button>{' '}
              {facts.site} <span class="faint">age {facts.age}</span>
            </li>
          );
        })}
      </ol>
      {pinners.length > PINNERS ? (
        <p class="faint">and {(pinners.length - PINNERS).toLocaleString('en')} smaller</p>
      ) : null}
      <button type="button" onClick={() => update({ address: null })}>
        Close
      </button>
    </section>
  );
}
