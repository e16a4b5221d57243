// What the memory of a device consists of, in parts that add up to all of it. Must not know how they are drawn.

import type { Gap, MemoryFigures } from '../../analysis/report/format.js';

export type PartName = 'requested' | 'rounding' | keyof Gap | 'unreserved';

export interface MemoryPart {
  readonly name: PartName;
  readonly bytes: number;
  readonly label: string;
  readonly meaning: string;
}

const WORDS: Readonly<Record<PartName, readonly [label: string, meaning: string]>> = {
  requested: ['requested', 'allocated, as much as the program asked for'],
  rounding: ['rounding', 'allocated, but more than was asked for'],
  pending: ['pending', 'freed, another stream may still use it'],
  other_stream: ['other stream', 'free, but in a stream or pool that the request cannot use'],
  wholly_free: ['wholly free', 'in segments without a live block: can be given back'],
  stuck: ['stuck', 'free, in segments that live blocks keep from being given back'],
  unreserved: ['not reserved', 'the device has it, this allocator does not hold it'],
};

/** Every byte in one part: all but the last sum up to reserved, with it to the capacity where that is known. */
export function memoryParts(
  { reserved, requested, rounding, gap }: Pick<MemoryFigures, 'reserved' | 'requested' | 'rounding' | 'gap'>,
  capacity: number | null,
): MemoryPart[] {
  const bytes: Readonly<Record<PartName, number>> = {
    requested,
    rounding,
    pending: gap.pending,
    other_stream: gap.other_stream,
    wholly_free: gap.wholly_free,
    stuck: gap.stuck,
    unreserved: capacity === null ? 0 : Math.max(0, capacity - reserved),
  };
  return (Object.keys(WORDS) as PartName[]).map((name) => {
    const [label, meaning] = WORDS[name];
    return { name, bytes: bytes[name], label, meaning };
  });
}
