// The page as one document: the bundled program with the snapshots that it is to show. Must not know files, nor what the page does.

/** Where the bundled page has room for the snapshots. */
const PLACE = '<!--snapshots-->';
const TITLE = '<title>cudalloc</title>';
/** The page may ask nobody anything; a served one asks its own server. */
const NO_REQUESTS = "connect-src 'none'";
const OWN_SERVER = "connect-src 'self'";

/** A snapshot inside the document. */
export interface EmbeddedSnapshot {
  readonly name: string;
  /** A snapshot file of any kind, gzip, as base64. */
  readonly base64: string;
}

export interface DocumentOptions {
  /** What the page shows first, as the part of its address after `#`; where the address says something, that counts. */
  readonly firstView?: string;
}

/** The page with snapshots inside it: it opens from disk and makes no request. Linear in their size. */
export function documentWith(
  page: string,
  snapshots: readonly EmbeddedSnapshot[],
  options: DocumentOptions = {},
): string {
  return [...documentPieces(page, snapshots, options)].join('');
}

/** The same in pieces, for texts longer than a string may be. */
export function* documentPieces(
  page: string,
  snapshots: readonly EmbeddedSnapshot[],
  { firstView = '' }: DocumentOptions = {},
): Generator<string, void, undefined> {
  const names = snapshots.map(({ name }) => name);
  const [before, after] = around(titled(page, names), PLACE);
  yield before;
  for (const { name, base64 } of snapshots) {
    yield `<script type="application/octet-stream" class="snapshot" data-name="${escapeText(name)}">`;
    yield base64;
    yield '</script>\n';
  }
  yield startScript(firstView);
  yield after;
}

/** The page for a server that gives the snapshots, in this order, at `snapshots/0`, `snapshots/1`, ... */
export function servedDocument(
  page: string,
  names: readonly string[],
  { firstView = '' }: DocumentOptions = {},
): string {
  const scripts = names.map(
    (name) => `<script type="text/plain" class="served" data-name="${escapeText(name)}"></script>\n`,
  );
  const filled = replaced(titled(page, names), PLACE, scripts.join('') + startScript(firstView));
  return replaced(filled, NO_REQUESTS, OWN_SERVER);
}

/** Runs before the page's program, which reads the address. Nothing of a user's text may come into it. */
function startScript(firstView: string): string {
  if (firstView === '') return '';
  if (!/^[\w=&.-]+$/.test(firstView)) throw new RangeError(`${firstView} is no state of the page`);
  return `<script>if (location.hash === '') history.replaceState(null, '', '#${firstView}');</script>\n`;
}

function titled(page: string, names: readonly string[]): string {
  const [first] = names;
  if (first === undefined) return page;
  const more = names.length > 1 ? ` and ${names.length - 1} more` : '';
  return replaced(page, TITLE, `<title>${escapeText(first)}${more} - cudalloc</title>`);
}

// Not String.replace, to which a dollar in the new text means something.
function replaced(text: string, mark: string, by: string): string {
  const [before, after] = around(text, mark);
  return before + by + after;
}

function around(text: string, mark: string): [before: string, after: string] {
  const at = text.indexOf(mark);
  if (at === -1) throw new RangeError(`the page has no ${mark}`);
  return [text.slice(0, at), text.slice(at + mark.length)];
}

function escapeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');
}
