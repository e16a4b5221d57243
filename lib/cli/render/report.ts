// The report on a snapshot for people: the answer first, then the numbers it rests on. Pure text.

import type { DeviceReport, Report, VerdictReport } from '../../analysis/report/format.js';
import type { OutOfMemoryMessage } from '../../analysis/report/oom-message.js';
import type { MessageVerdict } from '../../analysis/report/oom-message-verdict.js';
import { formatSize } from '../../units.js';
import { siteOf, sumBySite } from './call-sites.js';
import { formatCount, indent, style, table, wrap } from './style.js';

/** @param top entries of each list; 0: all */
export function renderReport(report: Report, top: number): string {
  const parts = [style.bold(report.files.join(', ')), verdictText(report.verdict, report)];
  for (const device of report.devices) parts.push(deviceText(device));
  parts.push(...listTexts(report, top));
  if (report.notes.length > 0) {
    parts.push(`${style.bold('Not known')}\n${indent(report.notes.map((note) => wrap(note, 98)).join('\n'))}`);
  }
  return parts.join('\n\n');
}

/** The verdict on the text of an error. */
export function renderMessage(message: OutOfMemoryMessage, verdict: MessageVerdict): string {
  const title = `${verdict.kind} (fragmentation ${verdict.fragmentation})`;
  const request = `a request of about ${formatSize(message.request.bytes)}`;
  return `${style.bold(title)}: ${request}\n${indent(wrap(verdict.sentence, 98))}`;
}

function verdictText(verdict: VerdictReport, report: Report): string {
  const { kind, request, sentence, advice } = verdict;
  const what =
    request === null
      ? ''
      : `: ${formatSize(request.bytes)} on stream ${request.stream}${request.event === null ? '' : ` at event ${formatCount(request.event)}`}`;
  const title = `${kind === 'none' ? style.green(kind) : style.red(kind)}${what}`;
  const lines = [`${style.bold('Verdict')} ${title}`, indent(wrap(sentence, 98))];
  if (advice.length > 0) {
    const rows = advice.map(({ conf, survives, predicted_peak: peak, fidelity }) => [
      conf,
      survives ? style.green('serves it') : 'does not serve it',
      formatSize(peak),
      fidelity === null ? '' : `${formatCount(fidelity.exact)} of ${formatCount(fidelity.allocations)}`,
    ]);
    lines.push(indent(table(['settings, by replay', '', 'peak reserved', 'fidelity'], rows)));
  }
  if (kind === 'full' || kind === 'too_large') lines.push(indent(largestHolders(report)));
  return lines.join('\n');
}

/** Where no setting helps, what holds most is what can be made smaller. */
function largestHolders({ holders }: Report): string {
  const sites = sumBySite(
    holders,
    ({ frames, no_stack: reason }) => siteOf(frames, reason),
    (sum, row) => ({ ...sum, bytes: sum.bytes + row.bytes, count: sum.count + row.count }),
  ).slice(0, 3);
  return wrap(`Most is held by ${sites.map(({ site, row }) => `${site} (${formatSize(row.bytes)})`).join(', ')}.`, 98);
}

function deviceText(device: DeviceReport): string {
  const { gap, reserved, allocated } = device;
  const free = reserved - allocated;
  const share = (bytes: number): string => (free === 0 ? '' : `${((100 * bytes) / free).toFixed(0)} %`);
  const rows = [
    ['reserved', formatSize(reserved), '', `${formatCount(device.segments)} segments held from the device`],
    ['allocated', formatSize(allocated), '', 'in use by the program'],
    ...(device.rounding > 0
      ? [['  rounding', formatSize(device.rounding), '', 'of that, more than was asked for']]
      : []),
    ['gap', formatSize(free), '', 'reserved, not allocated'],
    [
      '  wholly free',
      formatSize(gap.wholly_free),
      share(gap.wholly_free),
      'in segments without a live block: can be given back',
    ],
    ['  stuck', formatSize(gap.stuck), share(gap.stuck), 'in segments that live blocks pin'],
    ['  other stream', formatSize(gap.other_stream), share(gap.other_stream), 'free, but not for this request'],
    ['  pending', formatSize(gap.pending), share(gap.pending), 'freed, another stream may still use it'],
    ['largest free', formatSize(device.largest_free_block), '', 'one piece'],
  ];
  if (device.largest_request !== null) {
    rows.push(['largest request', formatSize(device.largest_request), '', 'that would succeed now']);
  }
  if (device.peak !== null && device.events > 1) {
    const at = `at event ${formatCount(device.peak.event)} of ${formatCount(device.events)}, ${formatSize(device.peak.reserved)} reserved`;
    rows.push(['peak allocated', formatSize(device.peak.allocated), '', at]);
  }
  if (device.pending_peak !== null) {
    const streams = device.pending_peak.by_stream.map(({ stream, bytes }) => `stream ${stream}: ${formatSize(bytes)}`);
    rows.push(['peak pending', formatSize(device.pending_peak.bytes), '', streams.join(', ')]);
  }
  const heading = `Device ${device.device}${device.file === undefined ? '' : ` of ${device.file}`}`;
  const parts = [`${style.bold(heading)}\n${table([], rows, ['left', 'right', 'right', 'left'])}`];
  if (device.pools.length > 1) parts.push(poolTable(device));
  return parts.join('\n\n');
}

function poolTable({ pools }: DeviceReport): string {
  const rows = pools.map((pool) => [
    `${pool.pool}${pool.pool_id.some((part) => part !== 0) ? ` (${pool.pool_id.join(', ')})` : ''}`,
    String(pool.stream),
    formatSize(pool.reserved),
    formatSize(pool.allocated),
    formatSize(pool.gap.wholly_free),
    formatSize(pool.gap.stuck),
    formatSize(pool.largest_free_block),
  ]);
  const head = ['pool', 'stream', 'reserved', 'allocated', 'wholly free', 'stuck', 'largest free'];
  return table(head, rows, ['left', 'right', 'right', 'right', 'right', 'right', 'right']);
}

function listTexts(report: Report, top: number): string[] {
  const texts: string[] = [];
  const pinning = sumBySite(
    report.pinning,
    ({ frames }) => siteOf(frames),
    (sum, row) => ({
      ...sum,
      pinned_bytes: sum.pinned_bytes + row.pinned_bytes,
      live_bytes: sum.live_bytes + row.live_bytes,
      live_blocks: sum.live_blocks + row.live_blocks,
    }),
  ).sort((a, b) => b.row.pinned_bytes - a.row.pinned_bytes);
  const rows = pinning.map(({ site, row }) => [
    formatSize(row.pinned_bytes),
    formatSize(row.live_bytes),
    formatCount(row.live_blocks),
    site,
  ]);
  texts.push(
    list(
      'Pinned: free bytes that live blocks keep from being given back',
      ['pinned', 'by live', 'blocks', 'largest of them from'],
      rows,
      top,
    ),
  );
  const holders = sumBySite(
    report.holders,
    ({ frames, no_stack: reason }) => siteOf(frames, reason),
    (sum, row) => ({ ...sum, bytes: sum.bytes + row.bytes, count: sum.count + row.count }),
  ).sort((a, b) => b.row.bytes - a.row.bytes);
  const held = holders.map(({ site, row }) => [formatSize(row.bytes), formatCount(row.count), site]);
  const when = report.at.event === null ? 'at the end' : `after event ${formatCount(report.at.event)}`;
  texts.push(list(`Held ${when}, by call site`, ['bytes', 'blocks', 'call site'], held, top));
  const growth = report.growth.map(({ bytes, bytes_per_iteration: each, iterations, frames }) => [
    formatSize(bytes),
    formatSize(each),
    formatCount(iterations),
    siteOf(frames),
  ]);
  texts.push(list('Grows and never comes back', ['bytes', 'an iteration', 'iterations', 'call site'], growth, top));
  return texts.filter((text) => text !== '');
}

function list(title: string, head: readonly string[], rows: readonly (readonly string[])[], top: number): string {
  if (rows.length === 0) return '';
  const shown = top === 0 ? rows : rows.slice(0, top);
  const align = head.map((_, i) => (i === head.length - 1 ? ('left' as const) : ('right' as const)));
  const more = rows.length > shown.length ? `\nand ${rows.length - shown.length} more (--top 0 shows all)` : '';
  return `${style.bold(title)}\n${table(head, shown, align)}${more}`;
}
