// Asks the worker, which reads the same snapshot a second time, what takes long: the report with its advice, and replays under other settings.
// Must not know how either is made.

import type { Report } from '../../analysis/report/format.js';
import type { WhatIfCourse, WhatIfQuestion } from '../what-if.js';
import type { OpenFile } from './open-file.js';

/** One question; `id` comes back with the answer. */
export type Question =
  | { readonly id: number; readonly kind: 'open'; readonly name: string; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly id: number; readonly kind: 'report' }
  | { readonly id: number; readonly kind: 'what-if'; readonly question: WhatIfQuestion };

export type Answer = { readonly id: number; readonly value: unknown } | { readonly id: number; readonly error: string };

type WithoutId<T> = T extends unknown ? Omit<T, 'id'> : never;

export class Analyst {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
  #asked = 0;
  #report: Promise<Report> | null = null;

  constructor({ name, bytes }: OpenFile) {
    // The page's own program, which begins as a worker where there is no document: one file, nothing to fetch.
    const program = document.getElementById('program')?.textContent ?? '';
    const url = URL.createObjectURL(new Blob([program], { type: 'text/javascript' }));
    this.#worker = new Worker(url);
    this.#worker.onmessage = ({ data }: MessageEvent<Answer>) => this.#take(data);
    this.#worker.onerror = (event) => {
      for (const { reject } of this.#waiting.values()) reject(new Error(`the worker failed: ${event.message}`));
      this.#waiting.clear();
    };
    void this.#ask({ kind: 'open', name, bytes }).catch(() => {});
  }

  /** What `cudalloc analyze --json` prints. Made once. */
  report(): Promise<Report> {
    this.#report ??= this.#ask<Report>({ kind: 'report' });
    return this.#report;
  }

  whatIf(question: WhatIfQuestion): Promise<WhatIfCourse> {
    return this.#ask({ kind: 'what-if', question });
  }

  close(): void {
    this.#worker.terminate();
  }

  #ask<T>(question: WithoutId<Question>): Promise<T> {
    const id = this.#asked++;
    return new Promise<T>((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ ...question, id });
    });
  }

  #take(answer: Answer): void {
    const waiting = this.#waiting.get(answer.id);
    this.#waiting.delete(answer.id);
    if ('error' in answer) waiting?.reject(new Error(answer.error));
    else waiting?.resolve(answer.value as never);
  }
}
