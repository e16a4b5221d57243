// The timeline: live bytes over events or time, each allocation a band. Puts together the picture, what was pointed at, the legend and the
// moments in words. Must not know how bands are drawn.

import { useMemo, useState } from 'preact/hooks';
import { COLOURED_GROUPS, groupBlocks } from '../colours.js';
import { BlockDetails } from './block-details.js';
import { ColouringChoice } from './colouring-choice.js';
import { nextOutOfMemory } from './keys.js';
import { Legend } from './legend.js';
import { MomentsTable } from './moments-table.js';
import { TimelineCanvas } from './timeline-canvas.js';
import type { ViewProps } from './view-props.js';

export function TimelineView(props: ViewProps) {
  const { history, state, update } = props;
  const grouping = useMemo(() => groupBlocks(history, state.colouring, COLOURED_GROUPS), [history, state.colouring]);
  const [notes, setNotes] = useState<readonly string[]>([]);
  return (
    <div class="timeline">
      <div class="controls">
        <fieldset>
          <legend>Along</legend>
          {(['events', 'time'] as const).map((axis) => (
            <label key={axis}>
              <input
                type="radio"
                name="axis"
                checked={state.axis === axis}
                disabled={axis === 'time' && history.times === null}
                onChange={() => update({ axis })}
              />
              {axis}
            </label>
          ))}
        </fieldset>
        <ColouringChoice id="timeline-colouring" state={state} update={update} />
        <button type="button" onClick={() => update({ cursor: history.peak })}>
          Peak
        </button>
        {history.outOfMemories.length === 0 ? null : (
          <button type="button" class="bad" onClick={() => update({ cursor: nextOutOfMemory(props) })}>
            Out of memory
            {history.outOfMemories.length > 1
              ? ` (the next of ${history.outOfMemories.length.toLocaleString('en')})`
              : ''}
          </button>
        )}
        <button type="button" onClick={() => update({ from: null, to: null, top: null, bottom: null })}>
          Show all
        </button>
        <span class="faint">Wheel zooms, with Shift upwards; drag moves; click picks a block and a moment.</span>
      </div>
      <TimelineCanvas {...props} grouping={grouping} onNotes={setNotes} />
      <ul class="notes" id="timeline-notes">
        {notes.map((note) => (
          <li key={note}>{note}</li>
        ))}
      </ul>
      <div class="below">
        {state.pinned === null || state.pinned >= history.lifetimes.blocks.length ? null : (
          <BlockDetails {...props} row={state.pinned} />
        )}
        <MomentsTable {...props} />
        <Legend {...props} grouping={grouping} />
      </div>
    </div>
  );
}
