// The lines of one device in a trace of the Trace Event Format: counters, instants, and slices in lanes that never overlap. Must not know
// memory.

/** Groups of lanes, from the top of the page. */
const GROUPS = ['annotations', 'segments', 'blocks'] as const;
export type LaneGroup = (typeof GROUPS)[number];

/** Numbers of threads, which lanes are to the viewer, are given out in ranges of this many. */
const GROUP_SIZE = 10_000_000;

/** What a viewer shows of an event beside its name. */
export type Args = Readonly<Record<string, string | number>>;

interface Lanes {
  count: number;
  readonly free: number[];
}

export class TrackWriter {
  readonly #device: number;
  /** A process of number 0 is the kernel's idle one to viewers. */
  readonly #process: number;
  readonly #lanes: Readonly<Record<LaneGroup, Lanes>> = {
    annotations: { count: 0, free: [] },
    segments: { count: 0, free: [] },
    blocks: { count: 0, free: [] },
  };

  constructor(device: number) {
    this.#device = device;
    this.#process = device + 1;
  }

  /** A lane in which nothing is open now. */
  lane(group: LaneGroup): number {
    return this.#lanes[group].free.pop() ?? this.freshLane(group);
  }

  /** A lane that was never used, for a slice that began long ago. */
  freshLane(group: LaneGroup): number {
    return this.#lanes[group].count++;
  }

  /** Gives a lane back when its slice has ended. */
  release(group: LaneGroup, lane: number): void {
    this.#lanes[group].free.push(lane);
  }

  slice(group: LaneGroup, lane: number, name: string, startUs: number, endUs: number, args: Args): string {
    const place = `"pid":${this.#process},"tid":${this.#thread(group, lane)}`;
    const time = `"ts":${startUs},"dur":${endUs - startUs}`;
    return `{"ph":"X",${place},${time},"name":${JSON.stringify(name)},"args":${JSON.stringify(args)}}`;
  }

  counter(name: string, timeUs: number, bytes: number): string {
    return `{"ph":"C","pid":${this.#process},"ts":${timeUs},"name":"${name}","args":{"bytes":${bytes}}}`;
  }

  instant(name: string, timeUs: number, args: Args): string {
    return `{"ph":"i","s":"p","pid":${this.#process},"tid":0,"ts":${timeUs},"name":"${name}","args":${JSON.stringify(args)}}`;
  }

  /** The names of what was used, to be written last. Linear in lanes. */
  *names(): Generator<string, void, undefined> {
    yield this.#metadata('process_name', 0, { name: `device ${this.#device}` });
    for (const group of GROUPS) {
      for (let lane = 0; lane < this.#lanes[group].count; lane++) {
        const thread = this.#thread(group, lane);
        yield this.#metadata('thread_name', thread, { name: group });
        yield this.#metadata('thread_sort_index', thread, { sort_index: thread });
      }
    }
  }

  #metadata(name: string, thread: number, args: Args): string {
    return JSON.stringify({ ph: 'M', pid: this.#process, tid: thread, name, args });
  }

  #thread(group: LaneGroup, lane: number): number {
    return 1 + GROUPS.indexOf(group) * GROUP_SIZE + lane;
  }
}
