// The outcome of a replay for people: one table, the first out of memory explained. Pure text.

import { DRIVER_CALLS, type ReplayReport } from '../../analysis/replay/format.js';
import type { ReplayResult } from '../../analysis/replay/replay.js';
import type { Fidelity, Recording } from '../../analysis/replay/snapshot-replay.js';
import { formatSize } from '../../units.js';
import { formatCount, indent, style, table, wrap } from './style.js';

/** What a replay of a snapshot rests on. */
export interface ReplayedSnapshot {
  readonly fidelity: Fidelity;
  readonly recording: Recording;
  /** Whether the results are those of the recorded settings. */
  readonly asRecorded: boolean;
  /** Peak of reserved bytes under the recorded settings. */
  readonly recordedPeak: number;
}

/** @param operations of the whole input. */
export function renderReplay(
  path: string,
  operations: number,
  result: ReplayResult,
  snapshot: ReplayedSnapshot | null,
): string {
  const { report, firstOutOfMemory } = result;
  const settings = report.config === '' ? 'none' : report.config;
  const parts = [
    `${style.bold(path)} on ${report.backend} (${formatSize(report.capacity)}), policy ${report.policy}, settings ${settings}` +
      (snapshot?.asRecorded ? ', as recorded' : ''),
    table([], [...(snapshot === null ? [] : fidelityRows(snapshot)), ...rows(operations, snapshot, result)]),
  ];
  if (firstOutOfMemory !== null) {
    const { op, error } = firstOutOfMemory;
    const heading = `${report.ooms === 1 ? 'Out' : 'First out'} of memory, at operation ${formatCount(op)}:`;
    parts.push(`${style.red(heading)}\n${indent(wrap(error.message))}`);
  }
  if (report.data_checks !== undefined && report.data_checks.mismatches_total > 0) parts.push(mismatches(report));
  return parts.join('\n\n');
}

function fidelityRows({ fidelity, recording, asRecorded, recordedPeak }: ReplayedSnapshot): string[][] {
  const { allocations, exact, first_difference: first } = fidelity;
  const all = exact === allocations;
  const share = all ? '100 %' : `${((exact / allocations) * 100).toFixed(2)} %`;
  const text = `${formatCount(exact)} of ${formatCount(allocations)} allocations at the recorded address (${share})`;
  const lines = [['fidelity', all ? style.green(text) : style.red(text)]];
  if (first !== null) {
    const where = first.replayed === null ? 'elsewhere' : `at ${hex(first.replayed)}`;
    lines.push([
      '',
      `the first that is not: event ${formatCount(first.event)}, ${where} instead of ${hex(first.recorded)}`,
    ]);
  }
  const { salvaged } = recording.snapshot;
  if (salvaged !== undefined)
    lines.push(['salvaged', style.red(wrap(`${salvaged}; where events are missing the rest does not fit`, 84))]);
  if (fidelity.incomplete_history > 0) lines.push(['history', historyText(fidelity)]);
  if (fidelity.conflicts > 0) {
    const example = recording.start.conflicts[0];
    lines.push([
      'conflicts',
      style.red(
        `${formatCount(fidelity.conflicts)} events contradict the rest${example === undefined ? '' : `: ${example}`}`,
      ),
    ]);
  }
  if (!asRecorded) {
    const conf = recording.conf === '' ? 'no settings' : recording.conf;
    lines.push(['recorded', `peak reserved ${formatSize(recordedPeak)} under ${conf}`]);
  }
  return lines;
}

function historyText({ incomplete_history: blocks, unknown_blocks: unknown }: Fidelity): string {
  const sizes = unknown === 0 ? '' : `, ${formatCount(unknown)} of them of inferred size`;
  return `incomplete: ${formatCount(blocks)} live blocks without an event${sizes}`;
}

function hex(address: number): string {
  return `0x${address.toString(16)}`;
}

function rows(operations: number, snapshot: ReplayedSnapshot | null, { report, elapsedMs }: ReplayResult): string[][] {
  const { stats } = report;
  const part =
    snapshot !== null || report.ops === operations
      ? ''
      : `, ${formatCount(report.from)} to ${formatCount(report.to)} of ${formatCount(operations)}`;
  const nsPerOperation = report.ops === 0 ? 0 : (elapsedMs * 1e6) / report.ops;
  const lines = [
    ...(snapshot === null ? [] : [['events', formatCount(operations)]]),
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
