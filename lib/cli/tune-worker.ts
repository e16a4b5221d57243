// A thread that tries settings: reads the input once, then answers candidates one after the other. Knows nothing of the search.

import { parentPort, workerData } from 'node:worker_threads';
import type { Candidate } from '../analysis/tune/smallest-capacity.js';
import { evaluateSettings, type TunedSetting } from '../analysis/tune/tune.js';
import { readInput, workloadOf } from './input.js';

/** What a worker is made with. */
export interface TuneWorkerData {
  readonly path: string;
  readonly salvage: boolean;
  readonly capacity: number | null;
}

/** What it is sent, and what it answers; `task` goes back as it came. */
export interface TuneTask {
  readonly task: number;
  readonly candidate: Candidate;
}
export type TuneAnswer = { readonly task: number } & (
  | { readonly value: TunedSetting }
  | { readonly error: { readonly message: string; readonly stack: string | undefined } }
);

const { path, salvage, capacity } = workerData as TuneWorkerData;
const workload = workloadOf(readInput(path, { salvage }));

parentPort?.on('message', ({ task, candidate }: TuneTask) => {
  parentPort?.postMessage(answer(task, candidate));
});

function answer(task: number, candidate: Candidate): TuneAnswer {
  try {
    return { task, value: evaluateSettings(workload, candidate, capacity) };
  } catch (error) {
    // Errors of our own classes do not survive the way between threads.
    const { message, stack } = error instanceof Error ? error : { message: String(error), stack: undefined };
    return { task, error: { message: `${candidate.conf === '' ? 'no settings' : candidate.conf}: ${message}`, stack } };
  }
}
