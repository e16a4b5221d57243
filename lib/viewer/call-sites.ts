// The call sites of a snapshot's stacks, numbered, and what kind of work each stack belongs to. Must not know who holds what.

import { callSite, formatCallSite } from '../snapshot/call-site.js';
import { EMPTY_STACK, type StackTable } from '../snapshot/model.js';
import { categoryOf } from './categories.js';

/** Number of the call site of blocks without a stack. */
export const NO_SITE = 0;

export class CallSites {
  /** By number: `forward (model.py:12)`. */
  readonly names: readonly string[];
  /** By number: the same text for the same call site in any file. */
  readonly keys: readonly string[];
  /** Number of the call site, by stack. */
  readonly siteOf: Uint32Array;
  /** Position in CATEGORIES, by stack. */
  readonly categoryOf: Uint8Array;

  /** Linear in frames of all stacks. */
  constructor(stacks: StackTable) {
    const names = ['no stack'];
    const keys = [''];
    const known = new Map<string, number>();
    this.siteOf = new Uint32Array(stacks.size);
    this.categoryOf = new Uint8Array(stacks.size);
    for (let stack = 0; stack < stacks.size; stack++) {
      this.categoryOf[stack] = categoryOf(stacks, stack);
      if (stack === EMPTY_STACK) continue;
      const frame = callSite(stacks, stack);
      if (frame === null) continue;
      const name = formatCallSite(frame);
      // Two files of the same name are two sites.
      const key = `${frame.filename}\0${name}`;
      let number = known.get(key);
      if (number === undefined) {
        number = names.push(name) - 1;
        keys.push(key);
        known.set(key, number);
      }
      this.siteOf[stack] = number;
    }
    this.names = names;
    this.keys = keys;
  }
}
