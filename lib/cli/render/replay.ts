// The outcome of a replay for people: one table, the first out of memory explained. Pure text.

import type { ReplayResult } from '../../analysis/replay.js';
import { DRIVER_CALLS, type ReplayReport } from '../../analysis/replay-format.js';
import type { Trace } from '../../snapshot/trace.js';
import { formatSize } from '../../units.js';
import { formatCount, indent, style, table, wrap } from './style.js';

export function renderReplay(path: string, trace: Trace, result: ReplayResult): string {
  const { report, firstOutOfMemory } = result;
  const parts = [
    `${style.bold(path)} on ${report.backend} (${formatSize(report.capacity)}), policy ${report.policy}, ` +
      `settings ${report.config === '' ? 'none' : report.config}`,
    table([], rows(trace, result)),
  ];
  if (firstOutOfMemory !== null) {
    const { op, error } = firstOutOfMemory;
    const heading = `${report.ooms === 1 ? 'Out' : 'First out'} of memory, at operation ${formatCount(op)}:`;
    parts.push(`${style.red(heading)}\n${indent(wrap(error.message))}`);
  }
  if (report.data_checks !== undefined && report.data_checks.mismatches_total > 0) parts.push(mismatches(report));
  return parts.join('\n\n');
}

function rows(trace: Trace, { report, elapsedMs }: ReplayResult): string[][] {
  const { stats } = report;
  const part =
    report.ops === trace.ops
      ? ''
      : `, ${formatCount(report.from)} to ${formatCount(report.to)} of ${formatCount(trace.ops)}`;
  const nsPerOperation = report.ops === 0 ? 0 : (elapsedMs * 1e6) / report.ops;
  const lines = [
    ['operations', `${formatCount(report.ops)}${part} (${formatCount(report.allocs.length)} allocations)`],
    ['peak allocated', formatSize(stats.allocated_bytes.all.peak)],
    ['peak reserved', formatSize(stats.reserved_bytes.all.peak)],
    [
      'at the end',
      `${formatSize(stats.allocated_bytes.all.current)} allocated, ${formatSize(stats.reserved_bytes.all.current)} reserved`,
    ],
    ['out of memory', report.ooms === 0 ? style.green('none') : style.red(formatCount(report.ooms))],
    ['retries', formatCount(stats.num_alloc_retries)],
    ['driver calls', driverCalls(report)],
    [
      'time',
      `${elapsedMs.toFixed(1)} ms, ${formatCount(Math.round(nsPerOperation))} ns an operation, all of it recorded`,
    ],
  ];
  const others = report.errors_total - report.ooms;
  if (others > 0) lines.push(['other errors', style.red(`${formatCount(others)} operations were refused`)]);
  const checks = report.data_checks;
  if (checks !== undefined) {
    const outcome = checks.mismatches_total === 0 ? style.green('all equal') : style.red('not equal');
    lines.push(['data', `${formatCount(checks.blocks)} blocks, ${formatSize(checks.bytes)} compared: ${outcome}`]);
  }
  return lines;
}

function driverCalls(report: ReplayReport): string {
  const made = DRIVER_CALLS.filter((fn) => report.driver_calls[fn] > 0);
  if (made.length === 0) return 'none';
  return wrap(made.map((fn) => `${fn} ${formatCount(report.driver_calls[fn])}`).join(', '), 84);
}

function mismatches(report: ReplayReport): string {
  const checks = report.data_checks;
  const total = checks?.mismatches_total ?? 0;
  const lines = (checks?.mismatches ?? []).map(
    ({ op, id, offset, expected, found }) =>
      `operation ${op}: block ${id}, byte ${offset}: ${expected} was written, ${found} came back`,
  );
  if (total > lines.length) lines.push(`and ${total - lines.length} more`);
  return `${style.red('Data did not come back as written:')}\n${indent(lines.join('\n'))}`;
}
