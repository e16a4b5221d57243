// What the figures of an out-of-memory message allow to be said: whether fragmentation can be the reason at all. Pure arithmetic on rounded
// figures; must not know how the text was read.

import type { VerdictKind } from '../../allocator/verdict.js';
import { formatSize, GIB } from '../../units.js';
import type { OutOfMemoryMessage, StatedSize } from './oom-message.js';

export interface MessageVerdict {
  readonly kind: VerdictKind;
  /** Bytes missing even if all that is free could be used, within `precision`; null where enough would be there. */
  readonly shortBy: number | null;
  /** How far the figures' rounding may move `shortBy`. */
  readonly precision: number;
  /** Whether the figures leave room for fragmentation as the reason. */
  readonly fragmentation: 'plausible' | 'impossible' | 'unknown';
  /** One or two sentences for people. */
  readonly sentence: string;
}

/** A CUDA context and the libraries of one process take less than this; more held outside the allocator is somebody else's. */
const OWN_OVERHEAD = GIB;

/** What is known when total, free, allocated and unallocated are stated. Bytes. */
interface Figures {
  readonly request: number;
  readonly room: number;
  readonly total: number;
  readonly free: number;
  readonly allocated: number;
  readonly unallocated: number;
  /** Neither free nor the allocator's. */
  readonly outside: number;
  /** Of these, what other processes hold, as far as is known. */
  readonly others: number;
  readonly precision: number;
}

/** Decides as `judge` does, in the same order, on what a message states. */
export function judgeMessage(message: OutOfMemoryMessage): MessageVerdict {
  const { total, free, allocated, reservedUnallocated, request } = message;
  const room = Math.min(total?.bytes ?? Number.MAX_VALUE, message.allowed?.bytes ?? Number.MAX_VALUE);
  if (request.bytes - request.precision > room + (total?.precision ?? 0)) return tooLarge(request, room);
  if (total === null || free === null || allocated === null || reservedUnallocated === null) {
    return verdict('unknown', null, 0, 'The message does not state enough figures to say why.');
  }
  const unallocated = reservedUnallocated.bytes;
  const outside = Math.max(0, total.bytes - free.bytes - allocated.bytes - unallocated);
  const stated = [total, free, allocated, reservedUnallocated, request];
  const figures: Figures = {
    request: request.bytes,
    room,
    total: total.bytes,
    free: free.bytes,
    allocated: allocated.bytes,
    unallocated,
    outside,
    others: heldByOthers(message, outside, allocated.bytes + unallocated),
    precision: stated.reduce((sum, { precision }) => sum + precision, 0),
  };
  return decide(figures, message);
}

function decide(figures: Figures, message: OutOfMemoryMessage): MessageVerdict {
  const { request, room, total, free, allocated, unallocated, outside, others, precision } = figures;
  // Where rounding leaves it open, it is what the rest of the figures suggest.
  const least = unallocated >= request ? precision : 0;
  if (allocated + request - room > least) return full(figures, allocated + request - room);
  const shortage = allocated + request - (total - outside);
  if (shortage > least) return others >= shortage ? otherProcess(figures, shortage) : full(figures, shortage);
  const allowed = message.allowed === null ? free : Math.max(0, message.allowed.bytes - allocated - unallocated);
  const usable = Math.min(free, allowed);
  if (usable >= request + precision) {
    return verdict(
      'unknown',
      null,
      precision,
      `The driver refused ${formatSize(request)} although ${formatSize(usable)} are free; the figures do not say why ` +
        '(another process may have held them at that moment).',
    );
  }
  return fragmented(figures, message);
}

function fragmented({ request, unallocated, free, precision }: Figures, message: OutOfMemoryMessage): MessageVerdict {
  const pools =
    message.privatePools !== null && message.privatePools.bytes > 0
      ? ` ${formatSize(message.privatePools.bytes)} are in private pools (CUDA graphs), which other requests cannot use.`
      : '';
  const held =
    unallocated >= request
      ? `${formatSize(unallocated)} are reserved but unallocated, enough for the ${formatSize(request)}, but not in one piece that this request may use`
      : `${formatSize(unallocated)} reserved but unallocated and ${formatSize(free)} free on the device would do together, neither does alone`;
  return verdict(
    'fragmented',
    null,
    precision,
    `Fragmentation is plausible: ${held}.${pools} expandable_segments:True helps, if it is not on already; a snapshot tells what pins the pieces.`,
  );
}

function full({ request, unallocated, allocated, precision }: Figures, shortBy: number): MessageVerdict {
  return verdict(
    'full',
    shortBy,
    precision,
    `It is not fragmentation: ${formatSize(allocated)} are in use, and only ${formatSize(unallocated)} are reserved but unallocated; ` +
      `for ${formatSize(request)} about ${formatSize(shortBy)} are missing whatever the settings.`,
  );
}

function otherProcess({ others, request, precision }: Figures, shortBy: number): MessageVerdict {
  return verdict(
    'other_process',
    shortBy,
    precision,
    `About ${formatSize(others)} of the device are held by other processes or outside this allocator; without them the ` +
      `${formatSize(request)} would fit. No setting of this process helps.`,
  );
}

function tooLarge(request: StatedSize, room: number): MessageVerdict {
  const shortBy = request.bytes - room;
  return verdict(
    'too_large',
    shortBy,
    request.precision,
    `The request of ${formatSize(request.bytes)} alone is larger than the ${formatSize(room)} there are; no setting helps.`,
  );
}

function verdict(kind: VerdictKind, shortBy: number | null, precision: number, sentence: string): MessageVerdict {
  const fragmentation = kind === 'fragmented' ? 'plausible' : kind === 'unknown' ? 'unknown' : 'impossible';
  return { kind, shortBy, precision, fragmentation, sentence };
}

/** From the processes that are named, else from what this one holds, else whatever is more than a process needs beside the allocator. */
function heldByOthers(message: OutOfMemoryMessage, outside: number, reserved: number): number {
  const { processes, processInUse, total, free } = message;
  if (processInUse !== null && processInUse.bytes > 0) {
    return Math.max(0, (total?.bytes ?? 0) - (free?.bytes ?? 0) - processInUse.bytes);
  }
  const own = processes.find(({ inUse }) => inUse.bytes + inUse.precision >= reserved);
  if (own !== undefined) return Math.max(0, (total?.bytes ?? 0) - (free?.bytes ?? 0) - own.inUse.bytes);
  return outside >= OWN_OVERHEAD ? outside : 0;
}
