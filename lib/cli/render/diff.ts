// The difference of two snapshots for people. Pure text.

import type { SnapshotDifference } from '../../analysis/report/diff.js';
import { formatSize } from '../../units.js';
import { siteOf, sumBySite } from './call-sites.js';
import { formatCount, style, table } from './style.js';

/** @param top call sites shown; 0: all */
export function renderDiff(a: string, b: string, { at, devices, sites }: SnapshotDifference, top: number): string {
  const totals = devices.map((device) => [
    `device ${device.device}`,
    signed(device.allocated),
    `${formatSize(device.allocated_a)} to ${formatSize(device.allocated_b)}`,
    signed(device.reserved),
    `${formatSize(device.reserved_a)} to ${formatSize(device.reserved_b)}`,
  ]);
  const grown = sumBySite(
    sites,
    ({ frames }) => siteOf(frames),
    (sum, row) => ({
      ...sum,
      bytes: sum.bytes + row.bytes,
      count: sum.count + row.count,
      bytes_a: sum.bytes_a + row.bytes_a,
      bytes_b: sum.bytes_b + row.bytes_b,
    }),
  )
    .filter(({ row }) => row.bytes !== 0 || row.count !== 0)
    .sort((x, y) => Math.abs(y.row.bytes) - Math.abs(x.row.bytes));
  const shown = top === 0 ? grown : grown.slice(0, top);
  const rows = shown.map(({ site, row }) => [
    row.bytes > 0 ? style.red(signed(row.bytes)) : style.green(signed(row.bytes)),
    `${row.count > 0 ? '+' : ''}${formatCount(row.count)}`,
    formatSize(row.bytes_a),
    formatSize(row.bytes_b),
    site,
  ]);
  const parts = [
    `${style.bold(a)} to ${style.bold(b)}, at the ${at}`,
    table(['', 'allocated', '', 'reserved', ''], totals),
    rows.length === 0
      ? 'No call site holds more or less than before.'
      : table(['bytes', 'blocks', 'before', 'after', 'call site'], rows, ['right', 'right', 'right', 'right', 'left']),
  ];
  if (grown.length > shown.length) parts.push(`and ${grown.length - shown.length} more (--top 0 shows all)`);
  return parts.join('\n\n');
}

function signed(bytes: number): string {
  return bytes > 0 ? `+${formatSize(bytes)}` : formatSize(bytes);
}
