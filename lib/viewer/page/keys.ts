// The keyboard: what each key does, in one table that is also shown. Must not know how anything is drawn.

import { useEffect, useRef } from 'preact/hooks';
import { type Span, wholeSpan } from '../timeline/axis.js';
import { VIEWS, type ViewState } from './store.js';
import type { ViewProps } from './view-props.js';

/** Events that are shown at least. */
export const FEWEST_SHOWN = 4;

interface Key {
  /** As shown to people. */
  readonly shown: string;
  readonly keys: readonly string[];
  readonly meaning: string;
  readonly act: (props: ViewProps, event: KeyboardEvent) => void;
}

/** The moment that is shown: the cursor, without one the end. */
export function momentOf({ history, state }: Pick<ViewProps, 'history' | 'state'>): number {
  const last = history.events - 1;
  return state.cursor === null ? last : Math.max(-1, Math.min(last, Math.round(state.cursor)));
}

/** The out of memory after the moment; after the last, and without a cursor, the first. Where there is none the cursor stays. Linear in them. */
export function nextOutOfMemory(props: Pick<ViewProps, 'history' | 'state'>): number | null {
  const { outOfMemories } = props.history;
  const moment = props.state.cursor === null ? Number.NEGATIVE_INFINITY : momentOf(props);
  return outOfMemories.find((event) => event > moment) ?? outOfMemories[0] ?? props.state.cursor;
}

/** The part of the timeline that is shown. */
export function spanOf(
  history: Pick<ViewProps['history'], 'events'>,
  { from, to }: Pick<ViewState, 'from' | 'to'>,
): Span {
  const whole = wholeSpan(history);
  if (from === null || to === null || !(from < to)) return whole;
  return {
    from: Math.max(whole.from, Math.min(whole.to - 1, from)),
    to: Math.min(whole.to, Math.max(whole.from + 1, to)),
  };
}

function step(direction: -1 | 1): Key['act'] {
  return (props, event) => {
    const { history, update, state } = props;
    const shown = spanOf(history, state);
    const by = event.shiftKey ? Math.max(1, Math.round((shown.to - shown.from) / 50)) : 1;
    update({ cursor: Math.max(-1, Math.min(history.events - 1, momentOf(props) + direction * by)) });
  };
}

function zoom(factor: number): Key['act'] {
  return (props) => {
    const { history, state, update } = props;
    const { from, to } = spanOf(history, state);
    const whole = wholeSpan(history);
    const width = Math.max(FEWEST_SHOWN, (to - from) * factor);
    if (width >= whole.to - whole.from) return update({ from: null, to: null });
    const middle = Math.max(from, Math.min(to, momentOf(props)));
    const start = Math.max(whole.from, Math.min(whole.to - width, middle - (width * (middle - from)) / (to - from)));
    update({ from: start, to: start + width });
  };
}

export const KEYS: readonly Key[] = [
  {
    shown: '1 to 4',
    keys: ['1', '2', '3', '4'],
    meaning: 'the views',
    act: ({ update }, { key }) => update({ view: VIEWS[Number(key) - 1] ?? 'timeline' }),
  },
  { shown: '←', keys: ['ArrowLeft'], meaning: 'one event back; with Shift a fiftieth of what is shown', act: step(-1) },
  { shown: '→', keys: ['ArrowRight'], meaning: 'one event on', act: step(1) },
  { shown: 'Home', keys: ['Home'], meaning: 'before the first event', act: ({ update }) => update({ cursor: -1 }) },
  { shown: 'End', keys: ['End'], meaning: 'the end', act: ({ update }) => update({ cursor: null }) },
  { shown: 'p', keys: ['p'], meaning: 'the peak', act: ({ update, history }) => update({ cursor: history.peak }) },
  {
    shown: 'o',
    keys: ['o'],
    meaning: 'the next out of memory',
    act: (props) => props.update({ cursor: nextOutOfMemory(props) }),
  },
  { shown: '+', keys: ['+', '='], meaning: 'closer', act: zoom(0.5) },
  { shown: '-', keys: ['-'], meaning: 'farther', act: zoom(2) },
  {
    shown: '0',
    keys: ['0'],
    meaning: 'the whole timeline',
    act: ({ update }) => update({ from: null, to: null, top: null, bottom: null }),
  },
  {
    shown: 'b',
    keys: ['b'],
    meaning: 'the second moment to compare with: here, or none',
    act: (props) => props.update({ other: props.state.other === null ? momentOf(props) : null }),
  },
  {
    shown: '/',
    keys: ['/'],
    meaning: 'search in stacks',
    act: () => document.querySelector<HTMLInputElement>('#search')?.focus(),
  },
  {
    shown: 'Esc',
    keys: ['Escape'],
    meaning: 'nothing pinned, nothing pointed out',
    act: ({ update }) => update({ pinned: null, highlight: null, address: null }),
  },
];

/** Keys act everywhere but where people write or choose. */
export function useKeys(props: ViewProps): void {
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    const act = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const target = event.target as HTMLElement | null;
      if (target?.closest('input, select, textarea') && event.key !== 'Escape') return;
      const key = KEYS.find(({ keys }) => keys.includes(event.key));
      if (key === undefined) return;
      event.preventDefault();
      if (target instanceof HTMLInputElement) target.blur();
      key.act(latest.current, event);
    };
    addEventListener('keydown', act);
    return () => removeEventListener('keydown', act);
  }, []);
}
