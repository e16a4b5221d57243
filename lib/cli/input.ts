// The input of commands that take a trace or a snapshot, told apart by their first bytes. Knows files, not what is done with them.

import { closeSync, openSync, readSync } from 'node:fs';
import { constants, gunzipSync } from 'node:zlib';
import { openRecording } from '../analysis/replay/snapshot-replay.js';
import { snapshotWorkload } from '../analysis/tune/snapshot-workload.js';
import { traceWorkload, type Workload } from '../analysis/tune/workload.js';
import { readSnapshot, readTrace } from '../snapshot/files.js';
import type { Snapshot } from '../snapshot/model.js';
import type { Trace } from '../snapshot/trace.js';

export type Input =
  | { readonly kind: 'trace'; readonly trace: Trace }
  | { readonly kind: 'snapshot'; readonly snapshot: Snapshot };

export interface InputOptions {
  /** Keep what can be read of a damaged snapshot. */
  readonly salvage?: boolean;
}

/** So much of a file tells what it is. */
const FIRST_BYTES = 4096;

/**
 * Reads a trace or a snapshot, plain or gzip. Linear in the file.
 * @throws TraceFormatError, SnapshotFormatError; the system's error when it cannot be read
 */
export function readInput(path: string, options: InputOptions = {}): Input {
  return beginsAsTrace(firstBytes(path))
    ? { kind: 'trace', trace: readTrace(path) }
    : { kind: 'snapshot', snapshot: readSnapshot(path, options) };
}

/** The requests of an input, to be run under other settings. @param device of a snapshot; default: the first with events */
export function workloadOf(input: Input, device?: number): Workload {
  if (input.kind === 'trace') return traceWorkload(input.trace);
  return snapshotWorkload(openRecording(input.snapshot, device === undefined ? {} : { device }));
}

/** Whether the first line that is not blank is an operation or a comment; a pickle or a JSON document begins otherwise. */
function beginsAsTrace(bytes: Buffer): boolean {
  return /^\s*(?:#|[afrehusFCPANbc](?:[ \r\n]|$))/.test(bytes.toString('latin1'));
}

function firstBytes(path: string): Buffer {
  const file = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(FIRST_BYTES);
    const start = bytes.subarray(0, readSync(file, bytes, 0, FIRST_BYTES, 0));
    if (start[0] !== 0x1f || start[1] !== 0x8b) return start;
    return decompressedStart(start);
  } finally {
    closeSync(file);
  }
}

/** What comes out of a part of a gzip file; of a damaged one nothing, which its reader has words for. */
function decompressedStart(bytes: Buffer): Buffer {
  try {
    return gunzipSync(bytes, { finishFlush: constants.Z_SYNC_FLUSH });
  } catch {
    return bytes;
  }
}
