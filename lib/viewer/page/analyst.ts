// Asks workers, which read the same snapshot once more, what takes long: the report with its advice, and replays under other settings. Each
// has a worker of its own, so that neither waits for the other. Must not know how an answer is made.

import type { Report } from '../../analysis/report/format.js';
import type { WhatIfAnswer, WhatIfProgress, WhatIfQuestion } from '../what-if.js';
import type { OpenFile } from './open-file.js';

/** One question; `id` comes back with the answer. */
export type Question =
  | { readonly id: number; readonly kind: 'open'; readonly name: string; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly id: number; readonly kind: 'report'; readonly advise: boolean }
  | { readonly id: number; readonly kind: 'what-if'; readonly question: WhatIfQuestion };

export type Answer =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly progress: Parameters<WhatIfProgress> }
  | { readonly id: number; readonly error: string };

export class Analyst {
  readonly #file: OpenFile;
  #reporter: WorkerLine | null = null;
  #replayer: WorkerLine | null = null;
  #first: Promise<Report> | null = null;
  #report: Promise<Report> | null = null;

  constructor(file: OpenFile) {
    this.#file = file;
  }

  /** What `cudalloc analyze --json` prints. Made once. */
  report(): Promise<Report> {
    if (this.#report === null) {
      const reporter = new WorkerLine(this.#file);
      this.#reporter = reporter;
      this.#first = reporter.ask<Report>({ kind: 'report', advise: false });
      // Perhaps nobody waits for it.
      this.#first.catch(() => {});
      this.#report = reporter.ask<Report>({ kind: 'report', advise: true });
      // Nothing else is asked of it, and it holds the snapshot a second time.
      const close = (): void => reporter.close();
      this.#report.then(close, close);
    }
    return this.#report;
  }

  /** The same without advice, which takes most of the time. Never fails: the whole report says why it could not be made. */
  firstReport(): Promise<Report | null> {
    void this.report().catch(() => {});
    return this.#first?.catch(() => null) ?? Promise.resolve(null);
  }

  /** @param onProgress told now and then */
  whatIf(question: WhatIfQuestion, onProgress?: WhatIfProgress): Promise<WhatIfAnswer> {
    this.#replayer ??= new WorkerLine(this.#file);
    return this.#replayer.ask({ kind: 'what-if', question }, onProgress);
  }

  close(): void {
    this.#reporter?.close();
    this.#replayer?.close();
  }
}

type WithoutId<T> = T extends unknown ? Omit<T, 'id'> : never;

interface Waiting {
  readonly resolve: (value: never) => void;
  readonly reject: (error: Error) => void;
  readonly onProgress: WhatIfProgress | undefined;
}

/** A worker with the snapshot open, and the questions that it has not answered yet. */
class WorkerLine {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  #asked = 0;
  #closed = false;

  constructor({ name, bytes }: OpenFile) {
    // The page's own program, which begins as a worker where there is no document: one file, nothing to fetch.
    const program = document.getElementById('program')?.textContent ?? '';
    const url = URL.createObjectURL(new Blob([program], { type: 'text/javascript' }));
    this.#worker = new Worker(url);
    this.#worker.onmessage = ({ data }: MessageEvent<Answer>) => this.#take(data);
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#fail(`the worker failed: ${event.message || 'it may have run out of memory'}`);
    };
    void this.ask({ kind: 'open', name, bytes })
      .catch(() => {})
      .finally(() => URL.revokeObjectURL(url));
  }

  ask<T>(question: WithoutId<Question>, onProgress?: WhatIfProgress): Promise<T> {
    if (this.#closed) return Promise.reject(new Error('the file is closed'));
    const id = this.#asked++;
    return new Promise<T>((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject, onProgress });
      this.#worker.postMessage({ ...question, id });
    });
  }

  close(): void {
    this.#closed = true;
    this.#worker.terminate();
    this.#fail('the file is closed');
  }

  #take(answer: Answer): void {
    const waiting = this.#waiting.get(answer.id);
    if (waiting === undefined) return;
    if ('progress' in answer) return waiting.onProgress?.(...answer.progress);
    this.#waiting.delete(answer.id);
    if ('error' in answer) waiting.reject(new Error(answer.error));
    else waiting.resolve(answer.value as never);
  }

  #fail(why: string): void {
    for (const { reject } of this.#waiting.values()) reject(new Error(why));
    this.#waiting.clear();
  }
}
