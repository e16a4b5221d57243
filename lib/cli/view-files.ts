// What `view` reads and packs: snapshots as the page takes them, the page itself, and pictures. Knows files and forms, no options.

import { readFileSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { analyze } from '../analysis/report/report.js';
import { SnapshotFormatError, UnsupportedError } from '../errors.js';
import { formatBinarySnapshot } from '../snapshot/binary/write-binary.js';
import { readSnapshot } from '../snapshot/files.js';
import type { Snapshot } from '../snapshot/model.js';
import type { FirstView } from '../viewer/first-view.js';
import { timelinePng } from '../viewer/pictures/timeline-png.js';
import { segmentsSvg } from '../viewer/segments/picture.js';

/** Beside the compiled program, in the repository as in the package. */
const PAGE = fileURLToPath(new URL('../viewer/page.html', import.meta.url));

const compress = promisify(gzip);

/** The bundled page. @throws UnsupportedError when it was not built */
export function readPage(): string {
  try {
    return readFileSync(PAGE, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    throw new UnsupportedError(`the page of the viewer is missing (${PAGE}); build it with: npm run build`);
  }
}

/** Among several files the error says which. @throws SnapshotFormatError; the system's error when it cannot be read */
export function readNamed(path: string, salvage: boolean): Snapshot {
  try {
    return readSnapshot(path, { salvage });
  } catch (error) {
    if (!(error instanceof SnapshotFormatError)) throw error;
    throw new SnapshotFormatError(`${path}: ${error.message}`, null, { cause: error });
  }
}

/** The small form that the page opens quickest, compressed. Linear. */
export function packed(snapshot: Snapshot): Promise<Buffer> {
  return compress(Buffer.concat([...formatBinarySnapshot(snapshot)]));
}

/** What the page calls them: the name of the file, or its path where there are two of that name. */
export function shownNames(paths: readonly string[]): string[] {
  return paths.map((path, i) => {
    const name = basename(path);
    const isTaken = paths.some((other, j) => j !== i && basename(other) === name && resolve(other) !== resolve(path));
    return isTaken ? path : name;
  });
}

export interface PictureOptions {
  readonly name: string;
  readonly width?: number;
  readonly height?: number;
}

/** The timeline, with the moment marked. */
export function timelinePicture({ history, moment }: FirstView, options: PictureOptions): Uint8Array {
  const made = history();
  // An out of memory has its mark already.
  const marked = moment !== null && made.outOfMemories.includes(moment) ? null : moment;
  return timelinePng(made, { ...options, moment: marked, capacity: capacityOf(made.snapshot, made.device) });
}

/** The address map at the moment. */
export function segmentsPicture({ history, moment }: FirstView, options: PictureOptions): string {
  const made = history();
  return segmentsSvg(made, moment ?? made.events - 1, options);
}

function capacityOf(snapshot: Snapshot, device: number): number | null {
  return analyze(snapshot, { advise: false }).devices.find((entry) => entry.device === device)?.capacity ?? null;
}
