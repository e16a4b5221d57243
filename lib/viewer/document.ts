// The page as one document: the bundled program with the snapshots that it is to show. Must not know files, nor what the page does.

/** Where the bundled page has room for the snapshots. */
const PLACE = '<!--snapshots-->';
/** The page may ask nobody anything; a served one asks its own server. */
const NO_REQUESTS = "connect-src 'none'";
const OWN_SERVER = "connect-src 'self'";

/** A snapshot inside the document. */
export interface EmbeddedSnapshot {
  readonly name: string;
  /** A snapshot file of any kind, gzip, as base64. */
  readonly base64: string;
}

/** The page with snapshots inside it: it opens from disk and makes no request. Linear in their size. */
export function documentWith(page: string, snapshots: readonly EmbeddedSnapshot[]): string {
  const scripts = snapshots.map(
    ({ name, base64 }) =>
      `<script type="application/octet-stream" class="snapshot" data-name="${escapeAttribute(name)}">${base64}</script>`,
  );
  return replaced(page, PLACE, scripts.join('\n'));
}

/** The page for a server that gives the snapshots, in this order, at `snapshots/0`, `snapshots/1`, ... */
export function servedDocument(page: string, names: readonly string[]): string {
  const scripts = names.map(
    (name) => `<script type="text/plain" class="served" data-name="${escapeAttribute(name)}"></script>`,
  );
  return replaced(replaced(page, PLACE, scripts.join('\n')), NO_REQUESTS, OWN_SERVER);
}

// Not String.replace, to which a dollar in the new text means something.
function replaced(text: string, mark: string, by: string): string {
  const at = text.indexOf(mark);
  if (at === -1) throw new RangeError(`the page has no ${mark}`);
  return text.slice(0, at) + by + text.slice(at + mark.length);
}

function escapeAttribute(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');
}
