// When each block and each segment of a device began and ended, as slices. Must not know what the counters are, or how a slice is written.

import { formatSize } from '../../units.js';
import { callSite, formatCallSite } from '../call-site.js';
import {
  ALLOC,
  type DeviceTrace,
  EMPTY_STACK,
  FREE_COMPLETED,
  FREE_REQUESTED,
  OOM,
  SEGMENT_ALLOC,
  SEGMENT_FREE,
  SEGMENT_MAP,
  SEGMENT_UNMAP,
  type SnapshotSegment,
  type StackTable,
} from '../model.js';
import { OpenRanges } from './open-ranges.js';
import type { Args, LaneGroup, TrackWriter } from './track-writer.js';

/** Frames of a stack that are shown. */
const SHOWN_FRAMES = 12;
/** Texts of stacks that are kept, as most occur again. */
const MAX_KEPT_TEXTS = 10_000;

interface Slice {
  readonly startUs: number;
  readonly lane: number;
  readonly stack: number;
  readonly stream: number;
  /** Requested bytes of a block. */
  readonly size: number;
  /** When the block was freed, where another stream still used it. */
  freedUs: number | null;
}

/** A period in microseconds. */
export interface Period {
  readonly startUs: number;
  readonly endUs: number;
}

/** Takes events in order and gives the lines of the slices that end with each. */
export class MemorySlices {
  readonly #trace: DeviceTrace;
  readonly #stacks: StackTable;
  readonly #tracks: TrackWriter;
  readonly #period: Period;
  readonly #blocks = new Map<number, Slice>();
  readonly #segments: OpenRanges<Slice>;
  readonly #texts = new Map<number, string>();

  constructor(trace: DeviceTrace, stacks: StackTable, tracks: TrackWriter, period: Period) {
    this.#trace = trace;
    this.#stacks = stacks;
    this.#tracks = tracks;
    this.#period = period;
    this.#segments = new OpenRanges((slice) => ({ ...slice, lane: tracks.freshLane('segments') }));
  }

  *take(event: number, nowUs: number): Generator<string, void, undefined> {
    const address = this.#trace.addresses[event] as number;
    const size = this.#trace.sizes[event] as number;
    switch (this.#trace.actions[event]) {
      case ALLOC: {
        const before = this.#blocks.get(address);
        // Its free was not recorded.
        if (before !== undefined) yield this.#endBlock(address, before, nowUs);
        this.#blocks.set(address, this.#begin('blocks', event, nowUs));
        return;
      }
      case FREE_REQUESTED: {
        const block = this.#blocks.get(address) ?? this.#beganBefore('blocks', event);
        block.freedUs = nowUs;
        this.#blocks.set(address, block);
        return;
      }
      case FREE_COMPLETED:
        yield this.#endBlock(address, this.#blocks.get(address) ?? this.#beganBefore('blocks', event), nowUs);
        return;
      case SEGMENT_ALLOC:
      case SEGMENT_MAP: {
        const replaced = this.#segments.add(address, address + size, this.#begin('segments', event, nowUs));
        for (const { start, end, value } of replaced) yield this.#endSegment(start, end, value, nowUs);
        return;
      }
      case SEGMENT_FREE:
      case SEGMENT_UNMAP: {
        const gaps = this.#segments.gaps(address, address + size);
        for (const { start, end, value } of this.#segments.take(address, address + size))
          yield this.#endSegment(start, end, value, nowUs);
        for (const { start, end } of gaps)
          yield this.#endSegment(start, end, this.#beganBefore('segments', event), nowUs);
        return;
      }
      case OOM:
        yield this.#tracks.instant('out of memory', nowUs, {
          requested: size,
          device_free: address,
          stream: this.#trace.streams[event] as number,
          stack: this.#text(this.#trace.stacks[event] as number),
        });
    }
  }

  /** What is there at the end. @param segments those of the device. */
  *finish(segments: readonly SnapshotSegment[]): Generator<string, void, undefined> {
    const { endUs } = this.#period;
    for (const { address: start, totalSize, stream, stack, blocks } of segments) {
      for (const gap of this.#segments.gaps(start, start + totalSize)) {
        this.#segments.add(gap.start, gap.end, this.#fromStart('segments', stack, stream, gap.end - gap.start));
      }
      for (const { address, state, requestedSize, stack: blockStack } of blocks) {
        if (state === 'inactive' || this.#blocks.has(address)) continue;
        this.#blocks.set(address, this.#fromStart('blocks', blockStack, stream, requestedSize));
      }
    }
    for (const { start, end, value } of this.#segments.takeAll()) yield this.#endSegment(start, end, value, endUs);
    for (const [address, block] of this.#blocks) yield this.#endBlock(address, block, endUs);
  }

  #begin(group: LaneGroup, event: number, startUs: number): Slice {
    const { stacks, streams, sizes } = this.#trace;
    return {
      startUs,
      lane: this.#tracks.lane(group),
      stack: stacks[event] as number,
      stream: streams[event] as number,
      size: sizes[event] as number,
      freedUs: null,
    };
  }

  /** Something that an event ends and no event began. The stack is that of its end, so it has none. */
  #beganBefore(group: LaneGroup, event: number): Slice {
    const { streams, sizes } = this.#trace;
    return this.#fromStart(group, EMPTY_STACK, streams[event] as number, sizes[event] as number);
  }

  #fromStart(group: LaneGroup, stack: number, stream: number, size: number): Slice {
    const { startUs } = this.#period;
    return { startUs, lane: this.#tracks.freshLane(group), stack, stream, size, freedUs: null };
  }

  #endBlock(address: number, block: Slice, nowUs: number): string {
    this.#blocks.delete(address);
    this.#tracks.release('blocks', block.lane);
    const site = callSite(this.#stacks, block.stack);
    const name = site === null ? 'no stack' : formatCallSite(site);
    const pending = block.freedUs !== null && block.freedUs < nowUs ? { freed_us: block.freedUs } : {};
    const args = { ...this.#args(address, block), ...pending };
    return this.#tracks.slice('blocks', block.lane, name, block.startUs, nowUs, args);
  }

  #endSegment(start: number, end: number, segment: Slice, nowUs: number): string {
    this.#tracks.release('segments', segment.lane);
    const args = this.#args(start, { ...segment, size: end - start });
    return this.#tracks.slice('segments', segment.lane, formatSize(end - start), segment.startUs, nowUs, args);
  }

  #args(address: number, { size, stream, stack }: Slice): Args {
    return { address: `0x${address.toString(16)}`, size, stream, stack: this.#text(stack) };
  }

  #text(stack: number): string {
    const known = this.#texts.get(stack);
    if (known !== undefined) return known;
    const frames = this.#stacks.frames(stack);
    const lines = frames.slice(0, SHOWN_FRAMES).map(formatCallSite);
    if (frames.length > SHOWN_FRAMES) lines.push(`and ${frames.length - SHOWN_FRAMES} more`);
    const text = lines.join('\n');
    if (this.#texts.size < MAX_KEPT_TEXTS) this.#texts.set(stack, text);
    return text;
  }
}
