// Gets the snapshots that the page shows: those inside it, those of its own server, and files that people drop on it. Knows how bytes come
// here, not what is drawn of them.

import type { Snapshot } from '../../snapshot/model.js';
import { parseSnapshot } from '../../snapshot/read-snapshot.js';

export interface OpenFile {
  readonly name: string;
  /** As it came, decompressed: for workers, which read it themselves. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly snapshot: Snapshot;
}

/** Linear in the file. @throws SnapshotFormatError */
export async function openFile(name: string, raw: Uint8Array<ArrayBuffer>): Promise<OpenFile> {
  const bytes = await decompressed(raw);
  return { name, bytes, snapshot: parseSnapshot(bytes) };
}

/** Snapshots in the document (`documentWith`) or named by it (`servedDocument`), in its order; each removed from it once read. */
export async function* snapshotsOfPage(): AsyncGenerator<{
  readonly name: string;
  readonly raw: Uint8Array<ArrayBuffer>;
}> {
  for (const element of document.querySelectorAll<HTMLElement>('script.snapshot')) {
    const raw = fromBase64(element.textContent ?? '');
    // The text is as large as the file; the bytes are enough.
    element.textContent = '';
    yield { name: element.dataset.name ?? 'snapshot', raw };
  }
  for (const [i, element] of [...document.querySelectorAll<HTMLElement>('script.served')].entries()) {
    const name = element.dataset.name ?? 'snapshot';
    const response = await fetch(`snapshots/${i}`);
    if (!response.ok) throw new Error(`the server gives no ${name}: ${await response.text()}`);
    yield { name, raw: new Uint8Array(await response.arrayBuffer()) };
  }
}

async function decompressed(raw: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  if (raw[0] !== 0x1f || raw[1] !== 0x8b) return raw;
  try {
    const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream('gzip'));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  } catch {
    throw new Error('it begins as a gzip file and cannot be decompressed: it is damaged or not all there');
  }
}

/** Of long texts, browsers since 2025 do this at once. */
function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native !== undefined) return native(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}
