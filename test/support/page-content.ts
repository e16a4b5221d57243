// What a page written by `cudalloc view` holds. Must not know how it is shown.

import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import type { Snapshot } from '../../lib/snapshot/model.js';
import { formatPickleSnapshot } from '../../lib/snapshot/pickle/write-pickle.js';
import { parseSnapshot } from '../../lib/snapshot/read-snapshot.js';

export interface PageContent {
  readonly names: string[];
  readonly snapshots: Snapshot[];
  /** What follows # in its address when it is opened without. */
  readonly start: string;
  readonly title: string;
}

/** As text: names are as they are escaped. */
export function contentOf(html: string): PageContent {
  const scripts = [...html.matchAll(/<script [^>]*class="snapshot" data-name="([^"]*)">([^<]*)<\/script>/g)];
  return {
    names: scripts.map((match) => match[1]!),
    snapshots: scripts.map((match) => parseSnapshot(gunzipSync(Buffer.from(match[2]!, 'base64')))),
    start: /<script>if \(location\.hash === ''\) [^<]*'(#[^']*)'\);<\/script>/.exec(html)?.[1] ?? '',
    title: /<title>([^<]*)<\/title>/.exec(html)?.[1] ?? '',
  };
}

export const pageAt = (path: string): PageContent => contentOf(readFileSync(path, 'utf8'));

export const pickle = (snapshot: Snapshot): Buffer => Buffer.concat([...formatPickleSnapshot(snapshot)]);

/** The snapshot of a file, written again. */
export const pickleOf = (path: string): Buffer => pickle(parseSnapshot(readFileSync(path)));
