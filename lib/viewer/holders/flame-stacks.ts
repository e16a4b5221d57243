// The stacks of one or two snapshots in one numbering, the outermost frame first: equal stacks have the same number, whatever file they are in.
// Must not know how much they hold.

import { scriptExtension } from '../../snapshot/call-site.js';
import { EMPTY_STACK, RowTable, type StackTable } from '../../snapshot/model.js';

export interface FlameFrame {
  readonly name: string;
  /** `filename:line`; '' where there is no file. */
  readonly file: string;
  /** The same for the same frame of any file. */
  readonly key: string;
}

export const NO_STACK: FlameFrame = { name: 'no stack', file: '', key: '' };

/** Of one table, what is numbered so far; -1: not yet. */
interface Numbers {
  readonly frames: Int32Array;
  readonly stacks: Int32Array;
}

export class FlameStacks {
  readonly #scriptsOnly: boolean;
  readonly #frames: FlameFrame[] = [];
  readonly #isScript: boolean[] = [];
  readonly #frameNumbers = new Map<string, number>();
  readonly #rows = new RowTable();
  readonly #tables = new Map<StackTable, Numbers>();
  #row = new Uint32Array(64);

  /** @param scriptsOnly leave out frames of machine code, of stacks that have others */
  constructor(scriptsOnly: boolean) {
    this.#scriptsOnly = scriptsOnly;
  }

  /** A stack's number here; 0 for the one without frames. Linear in its depth the first time, then constant. */
  numberOf(table: StackTable, stack: number): number {
    if (stack === EMPTY_STACK) return 0;
    let numbers = this.#tables.get(table);
    if (numbers === undefined) {
      numbers = { frames: new Int32Array(table.frameCount).fill(-1), stacks: new Int32Array(table.size).fill(-1) };
      this.#tables.set(table, numbers);
    }
    const known = numbers.stacks[stack] as number;
    if (known !== -1) return known;
    const number = this.#intern(table, stack, numbers);
    numbers.stacks[stack] = number;
    return number;
  }

  /** Frames of a stack. Constant. */
  depth(number: number): number {
    return this.#rows.lengthOf(number);
  }

  /** Number of the frame at a position of a stack, 0 being the outermost. Constant. */
  frameAt(number: number, position: number): number {
    return this.#rows.at(number, position);
  }

  /** By its number. Constant. */
  frame(number: number): FlameFrame {
    return this.#frames[number] as FlameFrame;
  }

  #intern(table: StackTable, stack: number, numbers: Numbers): number {
    const depth = table.depth(stack);
    if (depth > this.#row.length) this.#row = new Uint32Array(2 * depth);
    const row = this.#row;
    let scripts = 0;
    for (let i = 0; i < depth; i++) {
      const frame = this.#frameOf(table, table.frameNumber(stack, depth - 1 - i), numbers);
      row[i] = frame;
      if (this.#isScript[frame]) scripts++;
    }
    if (!this.#scriptsOnly || scripts === 0) return this.#rows.intern(row, depth);
    let length = 0;
    for (let i = 0; i < depth; i++) if (this.#isScript[row[i] as number]) row[length++] = row[i] as number;
    return this.#rows.intern(row, length);
  }

  #frameOf(table: StackTable, frame: number, numbers: Numbers): number {
    const known = numbers.frames[frame] as number;
    if (known !== -1) return known;
    const { name, filename, line } = table.frame(frame);
    const file = filename === '' ? '' : `${filename}:${line}`;
    const key = `${name}\0${file}`;
    let number = this.#frameNumbers.get(key);
    if (number === undefined) {
      number = this.#frames.push({ name, file, key }) - 1;
      this.#isScript.push(scriptExtension(filename) !== null);
      this.#frameNumbers.set(key, number);
    }
    numbers.frames[frame] = number;
    return number;
  }
}
