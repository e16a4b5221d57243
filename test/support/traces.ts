// Small traces as text, from a few words, for tests of what is done with them. Must not know what that is.

import { parseTrace, type Trace } from '../../lib/snapshot/trace.js';

const MIB = 1024 * 1024;

/** Writes a trace operation by operation. Sizes are MiB. */
export class TraceWriter {
  readonly #lines: string[] = [];
  #ids = 0;

  /** Returns the id. */
  allocate(mib: number, stream = 0): number {
    this.#ids++;
    this.#lines.push(`a ${this.#ids} ${Math.round(mib * MIB)} ${stream}`);
    return this.#ids;
  }

  free(...ids: readonly number[]): void {
    for (const id of ids) this.#lines.push(`f ${id}`);
  }

  line(text: string): void {
    this.#lines.push(text);
  }

  trace(): Trace {
    return parseTrace(`${this.#lines.join('\n')}\n`);
  }
}

/** What `write` writes. */
export function writtenTrace(write: (writer: TraceWriter) => void): Trace {
  const writer = new TraceWriter();
  write(writer);
  return writer.trace();
}
