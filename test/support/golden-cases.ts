// Finds golden cases (folders with a meta.json) and reads them; the format is described beside the data.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { gunzipSync } from 'node:zlib';
import type { ReplayReport } from '../../lib/analysis/replay/format.js';
import { readTrace } from '../../lib/snapshot/files.js';
import { type Trace, TraceOp } from '../../lib/snapshot/trace.js';
import { REPOSITORY } from './shared-data.js';

const COPIES = join(REPOSITORY, 'test/golden/data');

export interface GoldenMeta {
  readonly name: string;
  readonly config: string;
  readonly capacity: number;
  readonly ops: number;
  readonly order_sensitive: boolean;
  readonly order_sensitive_parts?: readonly string[];
}

/** What a golden file holds: a report, whose `trace` may leave out allocations and frees. */
export type GoldenExpected = Omit<ReplayReport, 'trace_complete' | 'policy' | 'backend' | 'from' | 'to'> & {
  readonly trace_complete: boolean;
};

export interface GoldenCase {
  /** Path below the folder that was searched. */
  readonly name: string;
  readonly folder: string;
  readonly tracePath: string;
  readonly meta: GoldenMeta;
}

/** All cases below a folder, sorted by name. */
export function goldenCases(root: string): GoldenCase[] {
  return readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('meta.json'))
    .map((path) => dirname(join(root, path)))
    .sort()
    .map((folder) => ({
      name: relative(root, folder),
      folder,
      tracePath: findTrace(folder),
      meta: JSON.parse(readFileSync(join(folder, 'meta.json'), 'utf8')) as GoldenMeta,
    }));
}

/** Whether the repository holds a copy of a shared case (`sim.test.ts` runs them, `shared-sim.test.ts` compares the copies). */
export function isCopied(golden: GoldenCase): boolean {
  return existsSync(join(COPIES, golden.name, 'meta.json'));
}

export function readExpected(golden: GoldenCase): GoldenExpected {
  const plain = join(golden.folder, 'expected.json');
  const text = existsSync(plain) ? readFileSync(plain) : gunzipSync(readFileSync(`${plain}.gz`));
  return JSON.parse(text.toString('utf8')) as GoldenExpected;
}

/** Whether a trace decides itself when events complete, which a real device does not allow. */
export function holdsEvents(trace: Trace): boolean {
  const held: ReadonlySet<number> = new Set([TraceOp.HoldEvents, TraceOp.ReleaseEvents, TraceOp.CompleteEvents]);
  return trace.codes.some((code) => held.has(code));
}

let lastTrace: { readonly path: string; readonly trace: Trace } | null = null;

/** Neighbouring cases often share a trace: the last one read is kept. */
export function readCaseTrace(golden: GoldenCase): Trace {
  if (lastTrace?.path !== golden.tracePath) lastTrace = { path: golden.tracePath, trace: readTrace(golden.tracePath) };
  return lastTrace.trace;
}

function findTrace(folder: string): string {
  for (const place of [folder, dirname(folder)]) {
    for (const name of ['trace.txt', 'trace.txt.gz']) {
      if (existsSync(join(place, name))) return join(place, name);
    }
  }
  throw new Error(`${folder} has no trace`);
}
