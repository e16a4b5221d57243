// Where a recording is cut into iterations: at annotations that recur (an optimizer's step), else into equal parts. Must not know what is
// looked for in them.

import type { DeviceTrace, PyDict, Snapshot } from '../snapshot/model.js';

/** Without annotations. */
const PARTS = 10;
/** An annotation recurs when it begins at least so often. */
const FEWEST = 4;

/** The first event of each iteration after the first, ascending; `annotation`: what marks them, null for equal parts. */
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
  return { starts: Array.from({ length: PARTS - 1 }, (_, i) => (i + 1) * length), annotation: null };
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
