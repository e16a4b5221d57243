// The address map: every segment to scale at any moment, what fills it, and what keeps its holes. Puts together the map, the scrubber, the
// sums and the table. Must not know how the map is drawn.

import { useCallback, useMemo, useState } from 'preact/hooks';
import { blockColours, COLOURED_GROUPS, groupBlocks } from '../colours.js';
import { poolName } from '../filter.js';
import { mapState } from '../segments/state.js';
import { BlockDetails } from './block-details.js';
import { ColouringChoice } from './colouring-choice.js';
import { momentOf } from './keys.js';
import { Legend } from './legend.js';
import { Scrubber } from './scrubber.js';
import { MOST_ZOOM, SegmentsCanvas } from './segments-canvas.js';
import { HoleDetails, KindTable, SegmentTable } from './segments-tables.js';
import type { ViewState } from './store.js';
import type { ViewProps } from './view-props.js';

export function SegmentsView(props: ViewProps) {
  const { history, state, palette, passing } = props;
  const moment = momentOf(props);
  const shownRanges = useMemo(() => rangesPassing(props), [history, state.stream, state.pool]);
  const map = useMemo(() => mapState(history.lifetimes, moment, shownRanges), [history, moment, shownRanges]);
  const grouping = useMemo(() => groupBlocks(history, state.colouring, COLOURED_GROUPS), [history, state.colouring]);
  const colours = useMemo(() => blockColours(grouping, palette), [grouping, palette]);
  const [zoom, setZoom] = useState(1);
  const [notes, onNotes] = useNotes();
  const { address } = state;
  const picked =
    address === null
      ? null
      : (map.segments.find((one) => one.address <= address && address < one.address + one.size) ?? null);
  return (
    <div class="segments">
      <Scrubber {...props} />
      <Controls {...props} zoom={zoom} onZoom={setZoom} />
      <SegmentsCanvas
        {...props}
        map={map}
        picked={picked}
        moment={moment}
        colours={colours}
        shownRanges={shownRanges}
        passing={passing}
        zoom={zoom}
        onZoom={setZoom}
        onNotes={onNotes}
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
        {picked === null || state.pinned !== null ? null : <HoleDetails {...props} segment={picked} moment={moment} />}
        <KindTable {...props} map={map} />
        <Legend {...props} grouping={grouping} />
        <SegmentTable {...props} map={map} />
      </div>
    </div>
  );
}

interface ControlsProps extends ViewProps {
  readonly zoom: number;
  readonly onZoom: (zoom: number) => void;
}

function Controls({ state, update, zoom, onZoom }: ControlsProps) {
  return (
    <div class="controls">
      <label>
        Zoom{' '}
        <input
          id="segments-zoom"
          type="range"
          min={0}
          max={Math.log2(MOST_ZOOM)}
          step={0.25}
          value={Math.log2(zoom)}
          aria-valuetext={`${zoom.toFixed(1)} times`}
          onInput={(event) => onZoom(2 ** Number(event.currentTarget.value))}
        />
      </label>
      <ColouringChoice id="segments-colouring" state={state} update={update} />
      <label>
        Point out{' '}
        <select
          id="segments-highlight"
          value={state.highlight ?? ''}
          onChange={(event) => update({ highlight: (event.currentTarget.value || null) as ViewState['highlight'] })}
        >
          <option value="">nothing</option>
          <option value="stuck">stuck</option>
          <option value="wholly_free">wholly free</option>
          <option value="pending">pending</option>
          <option value="other_stream">free in other streams and pools</option>
        </select>
      </label>
      <span class="faint">
        Every box is a segment, every byte has the same area. Hover says what it is, click pins it, Ctrl and wheel zoom.
      </span>
    </div>
  );
}

/** Told at every frame; only other words draw the page again. */
function useNotes(): readonly [readonly string[], (notes: readonly string[]) => void] {
  const [notes, setNotes] = useState<readonly string[]>([]);
  const tell = useCallback(
    (next: readonly string[]) => setNotes((before) => (before.join('\n') === next.join('\n') ? before : next)),
    [],
  );
  return [notes, tell];
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
