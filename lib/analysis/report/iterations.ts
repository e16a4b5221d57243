// Where a recording is cut into iterations: at annotations that recur (an optimizer's step), else into equal parts. Must not know what is
// looked for in them.

import { ALLOC, type DeviceTrace, FREE_REQUESTED, type PyDict, type Snapshot } from '../../snapshot/model.js';

/** Without annotations. */
const PARTS = 10;
/** An annotation recurs when it begins at least so often. */
const FEWEST = 4;
/** A loop frees at least this share of what it allocates; a model that is being loaded, or a pass that is under way, does not. */
const LOOP_SHARE = 0.75;

/** The first event of each iteration after the first, ascending; `annotation`: what marks them, null for equal parts. None where nothing recurs. */
export interface Iterations {
  readonly starts: readonly number[];
  readonly annotation: string | null;
}

/** Linear in events and annotations. */
export function iterationsOf(snapshot: Snapshot, device: number, trace: DeviceTrace): Iterations {
  const times = beginnings(snapshot, device);
  const recurring = [...times].filter(([, list]) => list.length >= FEWEST).sort((a, b) => b[1].length - a[1].length);
  for (const [name, list] of recurring) {
    const starts = [...new Set(list.sort((a, b) => a - b).map((time) => firstAtOrAfter(trace, time)))];
    const inside = starts.filter((event) => event > 0 && event < trace.length);
    if (inside.length >= FEWEST) return { starts: inside, annotation: name };
  }
  const length = Math.floor(trace.length / PARTS);
  // What comes before a loop belongs into the first part.
  if (!isLoop(trace, length)) return { starts: [], annotation: null };
  return { starts: Array.from({ length: PARTS - 1 }, (_, i) => (i + 1) * length), annotation: null };
}

/** Whether the bytes allocated from an event on are mostly freed again. */
function isLoop({ actions, sizes, length }: DeviceTrace, first: number): boolean {
  let allocated = 0;
  let freed = 0;
  for (let event = first; event < length; event++) {
    if (actions[event] === ALLOC) allocated += sizes[event] as number;
    else if (actions[event] === FREE_REQUESTED) freed += sizes[event] as number;
  }
  return freed >= LOOP_SHARE * allocated;
}

/** When each annotation begins, by its name. */
function beginnings(snapshot: Snapshot, device: number): Map<string, number[]> {
  const found = new Map<string, number[]>();
  const annotations = snapshot.extra?.get('external_annotations');
  if (!Array.isArray(annotations)) return found;
  for (const annotation of annotations) {
    if (!(annotation instanceof Map)) continue;
    const dict = annotation as PyDict;
    const name = dict.get('name');
    const time = dict.get('time_us');
    if (dict.get('stage') !== 'START' || typeof name !== 'string' || typeof time !== 'number') continue;
    if ((dict.get('device') ?? device) !== device) continue;
    const list = found.get(name);
    if (list === undefined) found.set(name, [time]);
    else list.push(time);
  }
  return found;
}

/** Times ascend in a trace. */
function firstAtOrAfter(trace: DeviceTrace, time: number): number {
  let low = 0;
  let high = trace.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((trace.times[middle] as number) < time) low = middle + 1;
    else high = middle;
  }
  return low;
}
