// Why a request failed: one pure function of figures, used by the out-of-memory error and by the analysis of snapshots.

import { formatSize } from '../units.js';

/** Bytes, at the moment of the failure. */
export interface FailureFigures {
  /** What the caller asked for. */
  readonly requested: number;
  /** That, rounded to a block. */
  readonly rounded: number;
  /** What the device was asked for. */
  readonly wanted: number;
  /** Free on the device. */
  readonly free: number;
  /** Of the device, or the capacity it was opened with. */
  readonly total: number;
  /** Allowed by the memory fraction; equals `total` without one. */
  readonly limit: number;
  readonly allocated: number;
  readonly reserved: number;
  /** Freed, but other streams may still use it. */
  readonly pending: number;
  /** Free in the pool and stream of the request, in segments pinned by live blocks. */
  readonly stuck: number;
  /** Free, but in other pools or streams. */
  readonly elsewhere: number;
  /** The largest free block that the request's pool and stream has. */
  readonly largestFree: number;
  /** The settings ask for them; null: no setting is to be named, since others are tried anyway. */
  readonly expandableSegments: boolean | null;
  /** The policy is `paged`, which puts whole free pages together whatever the settings. Default false. */
  readonly paged?: boolean;
}

export type VerdictKind =
  | 'none'
  | 'full'
  | 'fragmented'
  | 'other_stream'
  | 'pending'
  | 'other_process'
  | 'too_large'
  | 'unknown';

export interface Verdict {
  readonly kind: VerdictKind;
  /** Bytes missing even if every free byte could be used; null where enough would be there. */
  readonly shortBy: number | null;
  /** A settings string that addresses it; null where no setting does, or it is on already. */
  readonly advice: string | null;
  /** One sentence for people. */
  readonly sentence: string;
}

/** Decides in this order: larger than the card; live bytes do not fit; others hold it; there is room; awaited; elsewhere; in pieces. */
export function judge(figures: FailureFigures): Verdict {
  const { rounded, limit, total, allocated, reserved, free } = figures;
  const room = Math.min(limit, total);
  if (rounded > room) return tooLarge(figures, room);
  if (allocated + rounded > room) return full(figures, room);
  const others = Math.max(0, total - free - reserved);
  if (allocated + rounded > total - others) return otherProcess(figures, others);
  const usable = Math.min(free, Math.max(0, limit - reserved));
  if (usable >= figures.wanted) return unknown(usable);
  if (figures.pending + figures.stuck + figures.elsewhere === 0) {
    return others > 0 && usable + others >= figures.wanted
      ? otherProcess(figures, others)
      : segmentTooLarge(figures, usable);
  }
  if (figures.pending > 0 && usable + figures.stuck + figures.pending >= rounded && usable + figures.stuck < rounded) {
    return pending(figures);
  }
  if (figures.elsewhere > 0 && usable + figures.stuck + figures.pending < rounded) return otherStream(figures);
  return fragmented(figures, usable);
}

function unknown(usable: number): Verdict {
  const sentence = `The driver refused although it reports ${formatSize(usable)} that could be used; the figures do not say why.`;
  return { kind: 'unknown', shortBy: null, advice: null, sentence };
}

function tooLarge(figures: FailureFigures, room: number): Verdict {
  const what = room < figures.total ? 'the memory fraction allows' : 'the device has';
  return {
    kind: 'too_large',
    shortBy: figures.rounded - room,
    advice: null,
    sentence: `The request alone is larger than what ${what} (${formatSize(room)}); only a smaller request or a larger device helps.`,
  };
}

function full(figures: FailureFigures, room: number): Verdict {
  const shortBy = figures.allocated + figures.rounded - room;
  return {
    kind: 'full',
    shortBy,
    advice: null,
    sentence:
      `Truly full: ${formatSize(figures.allocated)} are in use and ${formatSize(shortBy)} are missing whatever the settings; ` +
      'free something, ask for less, or move memory off the device.',
  };
}

function segmentTooLarge(figures: FailureFigures, usable: number): Verdict {
  return {
    kind: 'full',
    shortBy: figures.wanted - usable,
    advice: null,
    sentence:
      `Nothing that is held is free, and the segment of ${formatSize(figures.wanted)} for this request does not fit into the ` +
      `${formatSize(usable)} that are left; free something, or ask for less.`,
  };
}

function otherProcess(figures: FailureFigures, others: number): Verdict {
  return {
    kind: 'other_process',
    shortBy: Math.max(figures.allocated + figures.rounded - (figures.total - others), figures.wanted - figures.free),
    advice: null,
    sentence:
      `${formatSize(others)} of the device are held outside this allocator (other processes, other libraries, the CUDA context); ` +
      'without them the request would fit.',
  };
}

function pending(figures: FailureFigures): Verdict {
  return {
    kind: 'pending',
    shortBy: null,
    advice: null,
    sentence:
      `${formatSize(figures.pending)} are freed but wait for work on other streams; synchronise those streams before this request, ` +
      'or record fewer uses with recordStream.',
  };
}

function otherStream(figures: FailureFigures): Verdict {
  return {
    kind: 'other_stream',
    shortBy: null,
    advice: null,
    sentence:
      `${formatSize(figures.elsewhere)} are free, but in pools of other streams or sizes that this request cannot use; ` +
      'allocate on the stream that holds them, or free what pins their segments so that they can be given back.',
  };
}

function fragmented(figures: FailureFigures, usable: number): Verdict {
  const pieces =
    `Fragmented: ${formatSize(figures.stuck + usable + figures.elsewhere)} are free, but in pieces between live blocks ` +
    `(the largest has ${formatSize(figures.largestFree)})`;
  if (figures.paged === true) {
    const sentence = `${pieces} that share pages with them; buffers allocated as movable would be copied together.`;
    return { kind: 'fragmented', shortBy: null, advice: null, sentence };
  }
  if (figures.expandableSegments === null)
    return { kind: 'fragmented', shortBy: null, advice: null, sentence: `${pieces}.` };
  if (!figures.expandableSegments) {
    const advice = 'expandable_segments:True';
    return {
      kind: 'fragmented',
      shortBy: null,
      advice,
      sentence: `${pieces}; try ${advice}, which lets segments grow page by page.`,
    };
  }
  return {
    kind: 'fragmented',
    shortBy: null,
    advice: null,
    sentence: `${pieces}; expandable_segments is on already: allocate long-lived blocks first, or free those that pin the pieces.`,
  };
}
