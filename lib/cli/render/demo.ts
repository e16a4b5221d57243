// The demo's outcome for people, in one screen. Pure text.

import type { Device } from '../../device/types.js';
import { formatSize } from '../../units.js';
import type { DemoPlan, DemoRun } from '../demo-workload.js';
import { indent, style, table, wrap } from './style.js';

export interface DemoCheck {
  readonly name: string;
  readonly passed: boolean;
}

export interface DemoRuns {
  readonly fixed: DemoRun;
  readonly expandable: DemoRun;
  /** Null where the device has no virtual memory. */
  readonly paged: DemoRun | null;
}

export interface DemoOutcome extends DemoRuns {
  readonly device: Device;
  readonly plan: DemoPlan;
  readonly checks: readonly DemoCheck[];
}

export function renderDemo({ device, plan, fixed, expandable, paged, checks }: DemoOutcome): string {
  const { virtualMemory } = device.features;
  const reason = virtualMemory.works ? '' : virtualMemory.reason;
  const where =
    device.backend === 'mock' ? "the CPU mock (no GPU needed: real bytes in this machine's memory)" : device.name;
  return [
    `${style.bold('cudalloc demo')}: ${formatSize(plan.capacity)} on ${where}`,
    workload(plan),
    `${style.bold('1. Fixed segments')} (the default settings)\n${indent(outcome(plan, fixed))}`,
    `${style.bold('2. Expandable segments')} (${expandable.conf})\n${indent(outcome(plan, expandable))}`,
    `${style.bold('3. Paged memory')} (policy paged)\n${indent(paged === null ? style.red(`not here: ${reason}`) : outcome(plan, paged))}`,
    `${style.bold('Memory summary')} on expandable segments, with that block in use (rows of zeros left out)\n${indent(withoutZeros(expandable.summary))}`,
    comparison(plan, { fixed, expandable, paged }),
    ...(fixed.snapshot === null ? [] : [snapshotOf(fixed.snapshot)]),
    checks.map(({ name, passed }) => `${passed ? style.green('ok    ') : style.red('FAILED')} ${name}`).join('\n'),
  ].join('\n\n');
}

function workload(plan: DemoPlan): string {
  return wrap(
    `${plan.batches} batches of ${formatSize(plan.longBatch)} fill the device and are freed; then ${plan.batches} shorter ones of ` +
      `${formatSize(plan.shortBatch)}, of each a result of ${formatSize(plan.result)} is kept. ` +
      `At last one request of ${formatSize(plan.request)}, with ${formatSize(plan.batches * plan.result)} in use.`,
  );
}

function outcome(plan: DemoPlan, run: DemoRun): string {
  const free = formatSize(run.reservedBefore - run.allocatedBefore);
  const state = `${formatSize(run.reservedBefore)} reserved, ${free} of it free, in ${run.pieces} pieces of at most ${formatSize(run.largestPiece)}.`;
  if (run.error === null)
    return `${state}\n${style.green(`${formatSize(plan.request)} allocated, written, read back.`)}`;
  return `${state}\n${style.red(wrap(run.error.message, 96))}`;
}

function comparison(plan: DemoPlan, { fixed, expandable, paged }: DemoRuns): string {
  const row = (name: string, cell: (run: DemoRun) => string) => [
    name,
    cell(fixed),
    cell(expandable),
    paged === null ? '-' : cell(paged),
  ];
  return table(
    ['', 'fixed', 'expandable', 'paged'],
    [
      row(`request of ${formatSize(plan.request)}`, ({ error }) =>
        error === null ? style.green('served') : style.red('out of memory'),
      ),
      row('peak reserved', ({ reservedPeak }) => formatSize(reservedPeak)),
      row('compared, byte for byte', ({ bytesCompared }) => formatSize(bytesCompared)),
      row('wrong bytes', ({ bytesWrong }) => String(bytesWrong)),
      row('time', ({ elapsedMs }) => `${(elapsedMs / 1000).toFixed(1)} s`),
    ],
    ['left', 'right', 'right', 'right'],
  );
}

function snapshotOf(path: string): string {
  return `A snapshot holds the memory at the moment of the failure and all that led to it. What holds it, and where:\n  npx cudalloc analyze ${path}`;
}

function withoutZeros(summary: string): string {
  const rows = summary.split('\n').filter((line) => !/^.*?(\s+0( bytes)?){4}$/.test(line));
  const isRule = (line: string | undefined) => line !== undefined && /^(-+|=+)$/.test(line);
  return rows.filter((line, i) => !(isRule(line) && isRule(rows[i + 1]))).join('\n');
}
