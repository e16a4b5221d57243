// The blocks in use after a recorded event: found by walking back from the final state. Frees are matched with allocations by their
// order, never by address alone. Must not know what is concluded from them.

import { type Config, DEFAULT_CONFIG } from '../../allocator/config.js';
import {
  ALLOC,
  type DeviceTrace,
  EMPTY_STACK,
  FREE_COMPLETED,
  FREE_REQUESTED,
  type Snapshot,
} from '../../snapshot/model.js';
import { blockSizes } from '../recording/block-sizes.js';

export interface LiveBlock {
  readonly address: number;
  /** Bytes it takes. */
  readonly size: number;
  readonly stack: number;
  /** The event that allocated it; -1: it was there before the recording. */
  readonly event: number;
}

interface Found {
  size: number;
  stack: number;
  /** Freed, but another stream may still use it. */
  pending: boolean;
}

/**
 * The allocated blocks after an event of a device; `null`: at the end. Linear in events.
 * @throws RangeError when there is no such event
 */
export function liveBlocks(
  snapshot: Snapshot,
  device: number,
  event: number | null = null,
  config: Config = DEFAULT_CONFIG,
): LiveBlock[] {
  const trace = snapshot.deviceTraces[device];
  const last = (trace?.length ?? 0) - 1;
  if (event !== null && !(Number.isInteger(event) && event >= 0 && event <= last)) {
    throw new RangeError(`there is no event ${event}: the ${last + 1} events of device ${device} are numbered from 0`);
  }
  const live = finalBlocks(snapshot, device);
  if (trace === undefined) return named(live, undefined, -1);
  const after = event ?? last;
  if (after < last) {
    const sizes = blockSizes(snapshot, device, config);
    for (let at = last; at > after; at--) undo(live, trace, at, sizes);
  }
  return named(live, trace, after);
}

function finalBlocks(snapshot: Snapshot, device: number): Map<number, Found> {
  const live = new Map<number, Found>();
  for (const segment of snapshot.segments) {
    if (segment.device !== device) continue;
    for (const { address, size, stack, state } of segment.blocks) {
      if (state !== 'inactive') live.set(address, { size, stack, pending: state === 'active_pending_free' });
    }
  }
  return live;
}

function undo(live: Map<number, Found>, trace: DeviceTrace, event: number, sizes: Float64Array): void {
  const address = trace.addresses[event] as number;
  switch (trace.actions[event]) {
    case ALLOC:
      live.delete(address);
      return;
    case FREE_COMPLETED:
      live.set(address, { size: sizes[event] as number, stack: EMPTY_STACK, pending: true });
      return;
    case FREE_REQUESTED: {
      const block = live.get(address);
      if (block !== undefined) block.pending = false;
    }
  }
}

/** Finds the allocation of each block: the last at its address up to the event. */
function named(live: ReadonlyMap<number, Found>, trace: DeviceTrace | undefined, after: number): LiveBlock[] {
  const wanted = new Map([...live].filter(([, { pending }]) => !pending));
  const blocks: LiveBlock[] = [];
  for (let event = after; event >= 0 && wanted.size > 0; event--) {
    if (trace?.actions[event] !== ALLOC) continue;
    const address = trace.addresses[event] as number;
    const block = wanted.get(address);
    if (block === undefined) continue;
    wanted.delete(address);
    const stack = block.stack === EMPTY_STACK ? (trace.stacks[event] as number) : block.stack;
    blocks.push({ address, size: block.size, stack, event });
  }
  for (const [address, { size, stack }] of wanted) blocks.push({ address, size, stack, event: -1 });
  return blocks.sort((a, b) => a.address - b.address);
}
