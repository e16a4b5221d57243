// The memory summary: the statistics as a text table for people. A pure function of statistics.

import { formatSize } from '../units.js';
import { STAT_ROWS, type StatRow, type Stats, type StatValues } from './stats.js';

const COLUMNS = ['Metric', 'Current', 'Peak', 'Total allocated', 'Total freed'];
const WIDTHS = [24, 14, 14, 17, 14];

/** PyTorch's memory_summary: every statistic, current, peak, and what was ever allocated and freed, by pool. */
export function memorySummary(stats: Stats, title: string): string {
  const rule = '='.repeat(WIDTHS.reduce((sum, width) => sum + width + 1, 0));
  const thin = '-'.repeat(rule.length);
  const lines = [rule, title, countersLine(stats), thin, row(COLUMNS), rule];
  STAT_ROWS.forEach((definition, index) => {
    if (definition.pools) {
      lines.push(row(cells(definition.label, definition, stats.values(index, 2))));
      lines.push(row(cells('  large pool', definition, stats.values(index, 1))));
      lines.push(row(cells('  small pool', definition, stats.values(index, 0))));
    } else {
      lines.push(row(cells(definition.label, definition, stats.values(index, 2))));
    }
    lines.push(thin);
  });
  lines[lines.length - 1] = rule;
  return lines.join('\n');
}

function countersLine(stats: Stats): string {
  const { num_ooms, num_alloc_retries, num_device_alloc, num_device_free } = stats.counters;
  return (
    `out of memory: ${num_ooms}, retries after a flush: ${num_alloc_retries}, ` +
    `device allocations: ${num_device_alloc}, device frees: ${num_device_free}`
  );
}

function cells(label: string, definition: StatRow, values: StatValues): string[] {
  const show = definition.unit === 'bytes' ? formatSize : String;
  return [label, ...[values.current, values.peak, values.allocated, values.freed].map(show)];
}

function row(texts: readonly string[]): string {
  return texts
    .map((text, column) => {
      const width = WIDTHS[column] as number;
      return column === 0 ? text.padEnd(width) : text.padStart(width);
    })
    .join(' ');
}
