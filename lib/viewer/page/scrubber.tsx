// Moves the moment along the events: by hand, or by itself. Must not know what is shown of it.

import { useEffect, useRef, useState } from 'preact/hooks';
import { formatSize } from '../../units.js';
import { momentOf } from './keys.js';
import type { ViewProps } from './view-props.js';

/** Seconds in which the whole recording is played. */
const SPEEDS = [60, 20, 8] as const;

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
        <select value={seconds} onChange={(event) => setSeconds(Number(event.currentTarget.value))}>
          {SPEEDS.map((speed) => (
            <option key={speed} value={speed}>
              {speed} s
            </option>
          ))}
        </select>
      </label>
      <label class="wide">
        <span class="hidden">Event</span>
        <input
          id="scrub"
          type="range"
          min={-1}
          max={Math.max(-1, last)}
          step={1}
          value={moment}
          aria-valuetext={`after event ${moment}`}
          onInput={(event) => {
            setPlaying(false);
            update({ cursor: Number(event.currentTarget.value) });
          }}
        />
      </label>
      <button type="button" onClick={() => update({ cursor: -1 })}>
        Start
      </button>
      <button type="button" onClick={() => update({ cursor: history.peak })}>
        Peak
      </button>
      {history.outOfMemories.length === 0 ? null : (
        <button
          type="button"
          class="bad"
          onClick={() =>
            update({
              cursor: history.outOfMemories.find((event) => event > moment) ?? (history.outOfMemories[0] as number),
            })
          }
        >
          Out of memory
        </button>
      )}
      <button type="button" onClick={() => update({ cursor: null })}>
        End
      </button>
      <output id="scrub-moment" data-moment={moment}>
        {moment < 0 ? 'before the first event' : `after event ${moment.toLocaleString('en')}`}:{' '}
        {formatSize(allocated[moment + 1] as number)} allocated of {formatSize(reserved[moment + 1] as number)} reserved
        {state.cursor === null ? ', the end' : ''}
      </output>
    </div>
  );
}

/** Moves on at every frame, as far as the time since the one before says. */
function usePlaying(playing: boolean, seconds: number, props: ViewProps, onEnd: () => void): void {
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    if (!playing) return;
    const first = momentOf(latest.current);
    const begun = performance.now();
    let frame = 0;
    const step = (now: number): void => {
      const { history, update } = latest.current;
      const perSecond = Math.max(1, history.events / seconds);
      const next = Math.floor(first + ((now - begun) / 1000) * perSecond);
      if (next >= history.events - 1) {
        update({ cursor: history.events - 1 });
        onEnd();
        return;
      }
      update({ cursor: Math.max(-1, next) });
      frame = requestAnimationFrame(step);
    };
    frame = requestAnimationFrame(step);
    return () => cancelAnimationFrame(frame);
  }, [playing, seconds]);
}
