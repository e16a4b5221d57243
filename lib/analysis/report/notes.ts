// What a snapshot does not tell, and why: one sentence each. Must not know how they are printed.

import { ALLOC, EMPTY_STACK, type Snapshot } from '../../snapshot/model.js';
import type { StartState } from '../recording/start-state.js';

/** Linear in events and blocks. @param starts the state before the first event, by device */
export function notesOn(snapshot: Snapshot, starts: ReadonlyMap<number, StartState>): string[] {
  const notes: string[] = [];
  if (snapshot.salvaged !== undefined) {
    notes.push(
      `only a part of the file could be read: ${snapshot.salvaged}; the state is that of the end, and where later events are missing it ` +
        'does not fit the ones that are there: what is said of earlier moments is not to be relied on',
    );
  }
  if (snapshot.traceOverflowed === true) {
    notes.push('the history kept the newest events only: older ones were overwritten');
  }
  for (const [device, start] of starts) notes.push(...notesOnDevice(snapshot, device, start));
  notes.push(...stackNotes(snapshot));
  return notes;
}

function notesOnDevice(snapshot: Snapshot, device: number, start: StartState): string[] {
  const notes: string[] = [];
  const where = snapshot.deviceTraces.length > 1 ? ` on device ${device}` : '';
  const trace = snapshot.deviceTraces[device];
  const records = trace?.actions.subarray(0, trace.length).includes(ALLOC) ?? false;
  if (!records) {
    notes.push(
      `no allocation is recorded${where}, only the state: who held the memory earlier, its course and what a setting would change ` +
        'cannot be told; record the history (torch.cuda.memory._record_memory_history())',
    );
  } else {
    const { liveWithoutEvent, unknownBlocks, conflictsTotal, conflicts } = start;
    if (liveWithoutEvent > 0) {
      notes.push(
        `history incomplete${where}: ${liveWithoutEvent} live blocks without an event` +
          `${unknownBlocks > 0 ? `, ${unknownBlocks} of them of inferred size` : ''}`,
      );
    }
    if (conflictsTotal > 0) {
      notes.push(`${conflictsTotal} events${where} contradict the others or the final state: ${conflicts[0]}`);
    }
  }
  const differing = snapshot.segments.filter((segment) => segment.device === device && !sumsUp(segment)).length;
  if (differing > 0) {
    notes.push(
      `the totals of ${differing} segments${where} are not the sums of their blocks; the figures here are those of the blocks`,
    );
  }
  return notes;
}

function sumsUp({ blocks, totalSize, allocatedSize, activeSize }: Snapshot['segments'][number]): boolean {
  let total = 0;
  let allocated = 0;
  let active = 0;
  for (const { size, state } of blocks) {
    total += size;
    if (state === 'active_allocated') allocated += size;
    if (state !== 'inactive') active += size;
  }
  return total === totalSize && allocated === allocatedSize && active === activeSize;
}

function stackNotes({ segments }: Snapshot): string[] {
  let live = 0;
  let without = 0;
  for (const { blocks } of segments) {
    for (const { state, stack } of blocks) {
      if (state === 'inactive') continue;
      live++;
      if (stack === EMPTY_STACK) without++;
    }
  }
  if (without === 0) return [];
  return [
    `${without} of ${live} live blocks have no stack: they were allocated before the recording, while stacks were off, or by threads ` +
      'whose stacks are not recorded',
  ];
}
