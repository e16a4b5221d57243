// A snapshot as a pickle that PyTorch's own tools read. What was read from a file is written as it was read; what is ours gets the layout of
// today's PyTorch. Must not know files.

import {
  type AsRead,
  BLOCK_LAYOUT,
  type BlockHistory,
  type DeviceTrace,
  EMPTY_STACK,
  EVENT_LAYOUT,
  FRAME_LAYOUT,
  type Frame,
  OOM,
  SEGMENT_LAYOUT,
  SNAPSHOT_LAYOUT,
  type Snapshot,
  type SnapshotBlock,
  type SnapshotSegment,
} from '../model.js';
import { PickleWriter } from './writer.js';

const HISTORY_LAYOUT: readonly string[] = ['addr', 'real_size', 'frames'];

/**
 * A snapshot as a pickle of protocol 4, in chunks. Frames, stacks and strings are written once. Linear in events, blocks and stacks.
 *
 * Two readers of PyTorch were checked in its source, and tests hold what they need: `torch/cuda/_memory_viz.py` takes of a segment
 * `address`, `total_size`, `allocated_size`, `stream` and `blocks`, of a block `size`, `requested_size`, `state` and `frames`, of an event
 * `action`, `addr`, `size` (of an `oom` `device_free` instead of `addr`), of a frame `name`, `filename`, `line`; a bare list counts as
 * segments. `torch/utils/viz/MemoryViz.js` also takes `device`, `stream` of events, `time_us` and `compile_context`, shows
 * `allocator_settings` where there are any, and has a reader of its own for pickles: protocols 2 to 4, and only the opcodes used here (of
 * bytes, floats beyond the numbers and integers above 255 bytes, which no PyTorch writes, it reads none or some).
 */
export function formatPickleSnapshot(snapshot: Snapshot): Uint8Array[] {
  const writer = new PickleWriter();
  new SnapshotPickler(snapshot, writer).snapshot();
  return writer.finish();
}

/** How the value of a key is written, by key. */
type Fields<T> = ReadonlyMap<string, (item: T, out: SnapshotPickler) => void>;

const SEGMENT_FIELDS: Fields<SnapshotSegment> = new Map([
  ['device', (segment, { writer }) => writer.number(segment.device)],
  ['address', (segment, { writer }) => writer.number(segment.address)],
  ['total_size', (segment, { writer }) => writer.number(segment.totalSize)],
  ['allocated_size', (segment, { writer }) => writer.number(segment.allocatedSize)],
  ['active_size', (segment, { writer }) => writer.number(segment.activeSize)],
  ['requested_size', (segment, { writer }) => writer.number(segment.requestedSize)],
  ['stream', (segment, { writer }) => writer.number(segment.stream)],
  ['segment_type', (segment, { writer }) => writer.string(segment.segmentType, 'key')],
  ['segment_pool_id', (segment, { writer }) => writer.tuple(segment.segmentPoolId)],
  ['is_expandable', (segment, { writer }) => writer.boolean(segment.isExpandable)],
  ['frames', (segment, out) => out.stack(segment.stack)],
  ['blocks', (segment, out) => out.blocks(segment.blocks)],
] satisfies [string, (segment: SnapshotSegment, out: SnapshotPickler) => void][]);

const BLOCK_FIELDS: Fields<SnapshotBlock> = new Map([
  ['address', (block, { writer }) => writer.number(block.address)],
  ['size', (block, { writer }) => writer.number(block.size)],
  ['requested_size', (block, { writer }) => writer.number(block.requestedSize)],
  ['state', (block, { writer }) => writer.string(block.state, 'key')],
  ['frames', (block, out) => out.stack(block.stack)],
  ['history', (block, out) => out.history(block.history ?? [])],
] satisfies [string, (block: SnapshotBlock, out: SnapshotPickler) => void][]);

const HISTORY_FIELDS: Fields<BlockHistory> = new Map([
  ['addr', (entry, { writer }) => writer.number(entry.address)],
  ['real_size', (entry, { writer }) => writer.number(entry.realSize)],
  ['frames', (entry, out) => out.stack(entry.stack)],
] satisfies [string, (entry: BlockHistory, out: SnapshotPickler) => void][]);

const FRAME_FIELDS: Fields<Frame> = new Map([
  ['name', (frame, { writer }) => writer.string(frame.name)],
  ['filename', (frame, { writer }) => writer.string(frame.filename)],
  ['line', (frame, { writer }) => writer.value(frame.line)],
] satisfies [string, (frame: Frame, out: SnapshotPickler) => void][]);

const SNAPSHOT_FIELDS: Fields<Snapshot> = new Map([
  ['segments', (snapshot, out) => out.segments(snapshot.segments)],
  ['device_traces', (snapshot, out) => out.deviceTraces(snapshot.deviceTraces)],
  // Only reached where there are none.
  ['external_annotations', (_snapshot, { writer }) => writer.list(0, () => {})],
] satisfies [string, (snapshot: Snapshot, out: SnapshotPickler) => void][]);

class SnapshotPickler {
  readonly writer: PickleWriter;
  readonly #snapshot: Snapshot;
  /** Number in the memo plus one, by number of the stack and of the frame; 0: not written yet. */
  readonly #stackNumbers: Uint32Array;
  readonly #frameNumbers: Uint32Array;

  constructor(snapshot: Snapshot, writer: PickleWriter) {
    this.writer = writer;
    this.#snapshot = snapshot;
    this.#stackNumbers = new Uint32Array(snapshot.stacks.size);
    this.#frameNumbers = new Uint32Array(snapshot.stacks.frameCount);
  }

  snapshot(): void {
    const { layout, segments, salvaged } = this.#snapshot;
    // PyTorch's first files were the list of segments and nothing else.
    if (layout?.length === 0) return this.segments(segments);
    // What is left of a file that was cut must have what readers count on.
    const lost = salvaged === undefined ? [] : ['segments', 'device_traces'].filter((key) => !layout?.includes(key));
    const whole = layout === undefined ? this.#snapshot : { ...this.#snapshot, layout: [...layout, ...lost] };
    this.#record(whole, SNAPSHOT_LAYOUT, SNAPSHOT_FIELDS);
  }

  segments(segments: readonly SnapshotSegment[]): void {
    this.writer.list(segments.length, (i) =>
      this.#record(segments[i] as SnapshotSegment, SEGMENT_LAYOUT, SEGMENT_FIELDS),
    );
  }

  blocks(blocks: readonly SnapshotBlock[]): void {
    this.writer.list(blocks.length, (i) => this.#record(blocks[i] as SnapshotBlock, BLOCK_LAYOUT, BLOCK_FIELDS));
  }

  history(history: readonly BlockHistory[]): void {
    this.writer.list(history.length, (i) => this.#record(history[i] as BlockHistory, HISTORY_LAYOUT, HISTORY_FIELDS));
  }

  deviceTraces(traces: readonly DeviceTrace[]): void {
    this.writer.list(traces.length, (i) => {
      const trace = traces[i] as DeviceTrace;
      this.writer.list(trace.length, (event) => this.#event(trace, event));
    });
  }

  stack(stack: number): void {
    const { stacks } = this.#snapshot;
    if (stack === EMPTY_STACK) return this.writer.list(0, () => {});
    const known = this.#stackNumbers[stack] as number;
    if (known > 0) return this.writer.get(known - 1);
    const number = this.writer.reserve('rest');
    this.#stackNumbers[stack] = number + 1;
    this.writer.list(stacks.depth(stack), (i) => this.#frame(stacks.frameNumber(stack, i)), number);
  }

  #frame(frame: number): void {
    const known = this.#frameNumbers[frame] as number;
    if (known > 0) return this.writer.get(known - 1);
    const number = this.writer.reserve('common');
    this.#frameNumbers[frame] = number + 1;
    this.#record(this.#snapshot.stacks.frame(frame), FRAME_LAYOUT, FRAME_FIELDS, number);
  }

  /** The keys as read, else the usual ones and what there is beside them. A value of another type than the model's is among the extra ones. */
  #record<T extends AsRead>(item: T, usual: readonly string[], fields: Fields<T>, number?: number): void {
    const { layout, extra } = item;
    const { writer } = this;
    const keys = layout ?? (extra === undefined ? usual : [...new Set([...usual, ...extra.keys()])]);
    writer.dict(() => {
      for (const key of keys) {
        const value = extra?.get(key);
        const field = fields.get(key);
        if (value === undefined && field === undefined) continue;
        writer.string(key, 'key');
        if (value !== undefined) writer.value(value);
        else field?.(item, this);
      }
    }, number);
  }

  #event(trace: DeviceTrace, event: number): void {
    const layout = trace.layouts[trace.layoutOf === null ? 0 : (trace.layoutOf[event] as number)] ?? EVENT_LAYOUT;
    const odd = trace.odd.size === 0 ? undefined : trace.odd.get(event);
    this.writer.dict(() => {
      for (const key of layout) {
        const value = odd?.get(key);
        if (value === undefined) this.#eventValue(trace, event, key, layout);
        else {
          this.writer.string(key, 'key');
          this.writer.value(value);
        }
      }
      if (layout === EVENT_LAYOUT) for (const key of trace.extras.keys()) this.#eventValue(trace, event, key, layout);
    });
  }

  #eventValue(trace: DeviceTrace, event: number, key: string, layout: readonly string[]): void {
    const { writer } = this;
    const column = trace.extras.get(key);
    const code = column?.codes[event] ?? 0;
    if (column !== undefined && code !== 0) {
      writer.string(key, 'key');
      return writer.value(column.values[code] ?? null);
    }
    switch (key) {
      case 'action':
        writer.string(key, 'key');
        return writer.string(trace.actionNames[trace.actions[event] as number] as string, 'key');
      case 'addr':
      case 'device_free': {
        // PyTorch gives the bytes that were free on the device a key of their own.
        const isFree = key === 'addr' && layout === EVENT_LAYOUT && trace.actions[event] === OOM;
        writer.string(isFree ? 'device_free' : key, 'key');
        return writer.number(trace.addresses[event] as number);
      }
      case 'size':
        writer.string(key, 'key');
        return writer.number(trace.sizes[event] as number);
      case 'stream':
        writer.string(key, 'key');
        return writer.number(trace.streams[event] as number);
      case 'time_us': {
        const time = trace.times[event] as number;
        if (Number.isNaN(time)) return;
        writer.string(key, 'key');
        return writer.number(time);
      }
      case 'frames':
        writer.string(key, 'key');
        return this.stack(trace.stacks[event] as number);
    }
  }
}
