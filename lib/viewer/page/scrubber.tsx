// Moves the moment along the recording: by hand, or by itself, by events or by time. Must not know what is shown of it.

import { useEffect, useRef, useState } from 'preact/hooks';
import { formatSize } from '../../units.js';
import type { DeviceHistory } from '../device-history.js';
import { momentAtShare, shareOfMoment } from '../play.js';
import { momentOf, nextOutOfMemory } from './keys.js';
import type { ViewProps } from './view-props.js';

/** Seconds in which the whole recording is played. */
const SPEEDS = [60, 20, 8] as const;
/** More marks would be a bar. */
const MARKED = 200;

export function Scrubber(props: ViewProps) {
  const { history, state, update } = props;
  const moment = momentOf(props);
  const [playing, setPlaying] = useState(false);
  const [seconds, setSeconds] = useState<number>(SPEEDS[1]);
  usePlaying(playing, seconds, props, () => setPlaying(false));
  const { allocated, reserved } = history.lifetimes;
  const last = history.events - 1;
  return (
    <div class="controls scrubber">
      <button
        type="button"
        id="play"
        aria-pressed={playing}
        disabled={history.events === 0}
        onClick={() => {
          if (!playing && moment >= last) update({ cursor: -1 });
          setPlaying(!playing);
        }}
      >
        {playing ? 'Pause' : 'Play'}
      </button>
      <label>
        in{' '}
        <select id="play-seconds" value={seconds} onChange={(event) => setSeconds(Number(event.currentTarget.value))}>
          {SPEEDS.map((speed) => (
            <option key={speed} value={speed}>
              {speed} s
            </option>
          ))}
        </select>
      </label>
      <label>
        by{' '}
        <select
          id="play-axis"
          value={state.axis}
          disabled={history.times === null}
          onChange={(event) => update({ axis: event.currentTarget.value === 'time' ? 'time' : 'events' })}
        >
          <option value="events">events</option>
          <option value="time">time</option>
        </select>
      </label>
      <label class="wide">
        <span class="hidden">Event</span>
        <span class="track">
          <input
            id="scrub"
            type="range"
            min={-1}
            max={Math.max(-1, last)}
            step={1}
            value={moment}
            disabled={history.events === 0}
            aria-valuetext={moment < 0 ? 'before the first event' : `after event ${moment}`}
            onInput={(event) => {
              setPlaying(false);
              update({ cursor: Number(event.currentTarget.value) });
            }}
          />
          <Marks history={history} />
        </span>
      </label>
      <Jumps {...props} />
      <output id="scrub-moment" data-moment={moment}>
        {moment < 0 ? 'before the first event' : `after event ${moment.toLocaleString('en')}`}:{' '}
        {formatSize(allocated[moment + 1] as number)} allocated of {formatSize(reserved[moment + 1] as number)} reserved
        {state.cursor === null ? ', the end' : ''}
      </output>
    </div>
  );
}

/** Where the peak and the out of memories are; the buttons say the same. */
function Marks({ history }: { readonly history: DeviceHistory }) {
  const { peak, outOfMemories, events } = history;
  if (events === 0) return null;
  const share = (event: number): string => String((event + 1) / events);
  return (
    <span aria-hidden="true">
      <i style={{ '--share': share(peak) }} data-peak={peak} />
      {outOfMemories.slice(0, MARKED).map((event) => (
        <i class="bad" key={event} style={{ '--share': share(event) }} data-out-of-memory={event} />
      ))}
    </span>
  );
}

function Jumps(props: ViewProps) {
  const { history, update } = props;
  const { outOfMemories, peak } = history;
  return (
    <>
      <button type="button" id="to-start" onClick={() => update({ cursor: -1 })}>
        Start
      </button>
      <button type="button" id="to-peak" onClick={() => update({ cursor: peak })}>
        Peak
      </button>
      {outOfMemories.length === 0 ? null : (
        <button
          type="button"
          id="to-out-of-memory"
          class="bad"
          title={outOfMemories.length > 1 ? `The next of ${outOfMemories.length.toLocaleString('en')}` : undefined}
          onClick={() => update({ cursor: nextOutOfMemory(props) })}
        >
          Out of memory
        </button>
      )}
      <button type="button" id="to-end" onClick={() => update({ cursor: null })}>
        End
      </button>
    </>
  );
}

/** Moves on at every frame, as far as the time since the one before says. Goes on from where people put it meanwhile. */
function usePlaying(playing: boolean, seconds: number, props: ViewProps, onEnd: () => void): void {
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    if (!playing) return;
    let share: number | null = null;
    // What was seen at the frame before, and what it asked for, which may not have arrived yet.
    let seen: number | null = null;
    let asked: number | null = null;
    let before = performance.now();
    let frame = 0;
    const step = (now: number): void => {
      const { history, state, update } = latest.current;
      const moment = momentOf(latest.current);
      if (share === null || (moment !== seen && moment !== asked)) share = shareOfMoment(history, state.axis, moment);
      share += Math.max(0, now - before) / 1000 / seconds;
      before = now;
      const next = momentAtShare(history, state.axis, share);
      if (next !== moment) update({ cursor: next });
      seen = moment;
      asked = next;
      if (share >= 1) return onEnd();
      frame = requestAnimationFrame(step);
    };
    frame = requestAnimationFrame(step);
    return () => cancelAnimationFrame(frame);
  }, [playing, seconds, props.state.axis]);
}
