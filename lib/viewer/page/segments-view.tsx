// The address map: every segment to scale at any moment, what fills it, and what keeps its holes. Puts together the map, the scrubber, the
// sums and the table. Must not know how the map is drawn.

import { useMemo, useState } from 'preact/hooks';
import { blockColours, COLOURED_GROUPS, groupBlocks } from '../colours.js';
import { poolName } from '../filter.js';
import { mapState } from '../segments/state.js';
import { BlockDetails } from './block-details.js';
import { momentOf } from './keys.js';
import { Scrubber } from './scrubber.js';
import { SegmentsCanvas } from './segments-canvas.js';
import { HoleDetails, KindTable, SegmentTable } from './segments-tables.js';
import type { ViewProps } from './view-props.js';

export function SegmentsView(props: ViewProps) {
  const { history, state, palette, update, passing } = props;
  const moment = momentOf(props);
  const map = useMemo(() => mapState(history.lifetimes, moment), [history, moment]);
  const grouping = useMemo(() => groupBlocks(history, state.colouring, COLOURED_GROUPS), [history, state.colouring]);
  const colours = useMemo(() => blockColours(grouping, palette), [grouping, palette]);
  const shownRanges = useMemo(() => rangesPassing(props), [history, state.stream, state.pool]);
  const [zoom, setZoom] = useState(1);
  const [notes, setNotes] = useState<readonly string[]>([]);
  const at =
    state.address === null
      ? undefined
      : map.segments.find(
          ({ address, size }) => address <= (state.address ?? 0) && (state.address ?? 0) < address + size,
        );
  return (
    <div class="segments">
      <Scrubber {...props} />
      <div class="controls">
        <label>
          Zoom{' '}
          <input
            id="segments-zoom"
            type="range"
            min={0}
            max={6}
            step={0.25}
            value={Math.log2(zoom)}
            onInput={(event) => setZoom(2 ** Number(event.currentTarget.value))}
          />
        </label>
        <label>
          Point out{' '}
          <select
            id="segments-highlight"
            value={state.highlight ?? ''}
            onChange={(event) => update({ highlight: (event.currentTarget.value || null) as typeof state.highlight })}
          >
            <option value="">nothing</option>
            <option value="stuck">stuck</option>
            <option value="wholly_free">wholly free</option>
            <option value="pending">pending</option>
            <option value="other_stream">free in other streams and pools</option>
          </select>
        </label>
        <span class="faint">
          Every line goes on in the next; every byte has the same area. Hover says what it is, click pins it, Ctrl and
          wheel zoom.
        </span>
      </div>
      <SegmentsCanvas
        {...props}
        map={map}
        moment={moment}
        colours={colours}
        shownRanges={shownRanges}
        passing={passing}
        zoom={zoom}
        onZoom={setZoom}
        onNotes={setNotes}
      />
      <ul class="notes" id="segments-notes">
        {notes.map((note) => (
          <li key={note}>{note}</li>
        ))}
      </ul>
      <div class="below">
        {state.pinned === null || state.pinned >= history.lifetimes.blocks.length ? null : (
          <BlockDetails {...props} row={state.pinned} />
        )}
        {at === undefined || state.pinned !== null ? null : <HoleDetails {...props} segment={at} moment={moment} />}
        <KindTable {...props} map={map} moment={moment} />
        <SegmentTable {...props} map={map} />
      </div>
    </div>
  );
}

/** 1 for each range of the stream and pool that are chosen; null: all. */
function rangesPassing({ history, state }: ViewProps): Uint8Array | null {
  if (state.stream === null && state.pool === null) return null;
  const { ranges } = history.lifetimes;
  const names = ranges.pools.map(poolName);
  return Uint8Array.from({ length: ranges.length }, (_, row) =>
    Number(
      (state.stream === null || ranges.streams[row] === state.stream) &&
        (state.pool === null || names[ranges.poolOf[row] as number] === state.pool),
    ),
  );
}
