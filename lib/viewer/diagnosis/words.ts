// What a report says first, in words for people. Must not know how it is shown.

import type { MemoryFigures, VerdictReport } from '../../analysis/report/format.js';
import { formatSize } from '../../units.js';
import { memoryParts } from './memory-parts.js';

const TITLES: Readonly<Record<VerdictReport['kind'], string>> = {
  none: 'No out of memory is recorded',
  full: 'Out of memory: what is in use leaves no room',
  fragmented: 'Out of memory by fragmentation',
  other_stream: 'Out of memory: what is free belongs to other streams or pools',
  pending: 'Out of memory: freed memory was still awaited by other streams',
  other_process: 'Out of memory: others hold the device',
  too_large: 'Out of memory: the request is larger than the device',
  unknown: 'Out of memory: the file does not tell why',
};

export function verdictTitle({ kind, request }: Pick<VerdictReport, 'kind' | 'request'>): string {
  return kind === 'none' && request !== null ? 'The request would succeed' : TITLES[kind];
}

/** Where nothing failed the report only says so; what it holds is worth a sentence then. */
export function verdictSentence(verdict: Pick<VerdictReport, 'request' | 'sentence'>, figures: MemoryFigures): string {
  return verdict.request === null ? gapSentence(figures) : verdict.sentence;
}

/** `At the end 3.00 GiB are allocated of 4.00 GiB reserved; most of the gap of 1.00 GiB is stuck: ...`. */
export function gapSentence(figures: MemoryFigures): string {
  const { reserved, allocated, gap } = figures;
  if (reserved === 0) return 'At the end nothing is reserved.';
  const held = `At the end ${formatSize(allocated)} are allocated of ${formatSize(reserved)} reserved`;
  const missing = reserved - allocated;
  if (missing === 0) return `${held}.`;
  const [largest] = memoryParts(figures, null)
    .filter(({ name }) => name in gap)
    .sort((a, b) => b.bytes - a.bytes);
  if (largest === undefined) return `${held}.`;
  const share = largest.bytes === missing ? 'All' : `${formatSize(largest.bytes)}`;
  return `${held}. ${share} of the gap of ${formatSize(missing)} is ${largest.label}: ${largest.meaning}.`;
}
