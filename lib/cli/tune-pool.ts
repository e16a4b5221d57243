// Threads that try settings side by side, one candidate each at a time. Answers come back in the order of the candidates, whoever was
// quicker. Must not know which candidates there are.

import { Worker } from 'node:worker_threads';
import type { Candidate } from '../analysis/tune/smallest-capacity.js';
import type { TunedSetting } from '../analysis/tune/tune.js';
import type { TuneAnswer, TuneTask, TuneWorkerData } from './tune-worker.js';

export class TunePool {
  readonly #workers: readonly Worker[];
  #fail: (error: Error) => void = () => {};
  #take: (worker: Worker, answer: TuneAnswer) => void = () => {};

  /** Starts the threads; each reads the input. */
  constructor(data: TuneWorkerData, jobs: number) {
    this.#workers = Array.from({ length: jobs }, () => {
      const worker = new Worker(new URL('./tune-worker.js', import.meta.url), { workerData: data });
      worker.on('message', (answer: TuneAnswer) => this.#take(worker, answer));
      worker.on('error', (error: Error) => this.#fail(error));
      worker.on('exit', (code) => this.#fail(new Error(`a worker thread ended with status ${code}`)));
      return worker;
    });
  }

  /**
   * The values of all candidates, in their order.
   * @param onProgress told after each
   * @throws what a worker has thrown, in its words
   */
  evaluate(candidates: readonly Candidate[], onProgress: (done: number) => void): Promise<TunedSetting[]> {
    return new Promise((resolve, reject) => {
      const values = new Array<TunedSetting>(candidates.length);
      let next = 0;
      let done = 0;
      const give = (worker: Worker): void => {
        const task = next++;
        const candidate = candidates[task];
        if (candidate !== undefined) worker.postMessage({ task, candidate } satisfies TuneTask);
      };
      this.#fail = reject;
      this.#take = (worker, answer) => {
        if ('error' in answer) return reject(withStack(answer.error));
        values[answer.task] = answer.value;
        done++;
        onProgress(done);
        if (done === candidates.length) resolve(values);
        else give(worker);
      };
      if (candidates.length === 0) resolve(values);
      this.#workers.forEach(give);
    });
  }

  /** Ends the threads, whatever they are doing. */
  async close(): Promise<void> {
    this.#fail = () => {};
    this.#take = () => {};
    await Promise.all(this.#workers.map((worker) => worker.terminate()));
  }
}

function withStack({ message, stack }: { readonly message: string; readonly stack: string | undefined }): Error {
  const error = new Error(message);
  if (stack !== undefined) error.stack = stack;
  return error;
}
