// The questions that were asked about other settings and what was answered, kept for each file and device while people look at other views.
// Must not know how they are shown.

import { useEffect, useState } from 'preact/hooks';
import type { PolicyName } from '../../allocator/policy.js';
import { recordedConf, recordedPolicy } from '../../analysis/recording/recorded-config.js';
import type { DeviceHistory } from '../device-history.js';
import type { WhatIfAnswer, WhatIfCourse, WhatIfQuestion, WhatIfStep } from '../what-if.js';
import { checkDraft, settingsToTry, type WhatIfDraft, writeSize } from '../what-if-input.js';
import type { Analyst } from './analyst.js';
import type { ViewProps } from './view-props.js';

/** What one of many settings came to. */
export type Tried = Pick<
  WhatIfCourse,
  'conf' | 'policy' | 'peakReserved' | 'outOfMemories' | 'retries' | 'segments' | 'driverCalls'
>;

export interface SessionState {
  /** `capacity` null: nobody has changed it. */
  readonly draft: Omit<WhatIfDraft, 'capacity'> & { readonly capacity: string | null };
  readonly running: { readonly step: WhatIfStep; readonly part: number } | null;
  readonly answer: WhatIfAnswer | null;
  readonly error: string | null;
  /** The usual settings that were run so far; null: nobody asked for them. */
  readonly tried: { readonly rows: readonly Tried[]; readonly of: number; readonly going: boolean } | null;
}

export class WhatIfSession {
  readonly recorded: { readonly conf: string; readonly policy: PolicyName };
  readonly suggested: readonly string[];
  readonly #analyst: Analyst;
  readonly #history: DeviceHistory;
  readonly #listeners = new Set<() => void>();
  #state: SessionState;
  #asked = 0;

  constructor(analyst: Analyst, history: DeviceHistory) {
    this.#analyst = analyst;
    this.#history = history;
    this.recorded = { conf: recordedConf(history.snapshot), policy: recordedPolicy(history.snapshot) };
    this.suggested = settingsToTry(history.lifetimes.blocks.requested, this.recorded.conf, this.recorded.policy);
    const conf = this.suggested.find((text) => text.includes('expandable_segments:True')) ?? '';
    const draft = { conf, policy: this.recorded.policy, capacity: null };
    this.#state = { draft, running: null, answer: null, error: null, tried: null };
  }

  get state(): SessionState {
    return this.#state;
  }

  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** What stands in the form. @param capacity bytes of the device, where nobody has written others */
  draft(capacity: number | null): WhatIfDraft {
    const { draft } = this.#state;
    return { ...draft, capacity: draft.capacity ?? (capacity === null ? '' : writeSize(capacity)) };
  }

  write(patch: Partial<WhatIfDraft>): void {
    this.#set({ draft: { ...this.#state.draft, ...patch } });
  }

  /** Asks what stands in the form; an answer to an earlier question is no longer waited for. */
  async ask(capacity: number | null): Promise<void> {
    const draft = this.draft(capacity);
    const checked = checkDraft(draft);
    if (checked.confFaults.length > 0 || checked.capacityFault !== null) return;
    const number = ++this.#asked;
    this.#set({ running: { step: 'repeating the recording', part: 0 }, error: null, tried: this.#stopped() });
    try {
      const answer = await this.#whatIf({ conf: draft.conf, policy: draft.policy, capacity: checked.capacity }, number);
      if (number === this.#asked) this.#set({ running: null, answer });
    } catch (error) {
      if (number === this.#asked) this.#set({ running: null, error: textOf(error) });
    }
  }

  /** Runs the recorded settings and those worth trying one after the other, on the device and under the policy of the form. */
  async tryAll(capacity: number | null): Promise<void> {
    const draft = this.draft(capacity);
    const { capacity: bytes, capacityFault } = checkDraft(draft);
    if (capacityFault !== null) return;
    const number = ++this.#asked;
    const { policy } = draft;
    const rows: Tried[] = [];
    const confs = settingsToTry(this.#history.lifetimes.blocks.requested, this.recorded.conf, policy);
    const progress = (going: boolean): void =>
      this.#set({
        running: going ? { step: 'the settings asked about', part: rows.length / (confs.length + 1) } : null,
        tried: { rows: [...rows], of: confs.length + 1, going },
      });
    this.#set({ error: null });
    progress(true);
    for (const conf of confs) {
      try {
        const { tried, baseline } = await this.#whatIf({ conf, policy, capacity: bytes }, number, false);
        if (number !== this.#asked) return;
        if (rows.length === 0) rows.push(figuresOf(baseline));
        rows.push(figuresOf(tried));
        progress(rows.length <= confs.length);
      } catch (error) {
        if (number === this.#asked) this.#set({ running: null, error: textOf(error), tried: this.#stopped() });
        return;
      }
    }
  }

  stop(): void {
    this.#asked++;
    this.#set({ running: null, tried: this.#stopped() });
  }

  #whatIf(question: Omit<WhatIfQuestion, 'device'>, number: number, tells = true): Promise<WhatIfAnswer> {
    return this.#analyst.whatIf({ ...question, device: this.#history.device }, (step, part) => {
      if (tells && number === this.#asked) this.#set({ running: { step, part } });
    });
  }

  #stopped(): SessionState['tried'] {
    const { tried } = this.#state;
    return tried === null ? null : { ...tried, going: false };
  }

  #set(patch: Partial<SessionState>): void {
    this.#state = { ...this.#state, ...patch };
    for (const listener of this.#listeners) listener();
  }
}

function figuresOf({ conf, policy, peakReserved, outOfMemories, retries, segments, driverCalls }: WhatIfCourse): Tried {
  return { conf, policy, peakReserved, outOfMemories, retries, segments, driverCalls };
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const sessions = new WeakMap<DeviceHistory, WhatIfSession>();

/** The same for a device of a file as long as it is open. */
export function useWhatIfSession(analyst: Analyst, history: DeviceHistory): WhatIfSession {
  const known = sessions.get(history) ?? new WhatIfSession(analyst, history);
  sessions.set(history, known);
  const [, changed] = useState(0);
  useEffect(() => known.listen(() => changed((count) => count + 1)), [known]);
  return known;
}

/** What the parts of the panel are given. */
export type WhatIfPanelProps = ViewProps & { readonly session: WhatIfSession };
