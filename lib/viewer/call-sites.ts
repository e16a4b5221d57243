// The call sites of a snapshot's stacks, numbered, and what kind of work each stack belongs to. Must not know who holds what.

import { formatCallSite, namingRank } from '../snapshot/call-site.js';
import type { Frame, StackTable } from '../snapshot/model.js';
import { categoryOf, NO_STACK, signsOf } from './categories.js';

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

  /** Linear in frames of all stacks; texts are made once for each different frame. */
  constructor(stacks: StackTable) {
    const frames = Array.from({ length: stacks.frameCount }, (_, i) => stacks.frame(i));
    const ranks = Uint8Array.from(frames, namingRank);
    const signs = Uint8Array.from(frames, signsOf);
    const numbers = new SiteNumbers(frames);
    this.siteOf = new Uint32Array(stacks.size);
    this.categoryOf = new Uint8Array(stacks.size).fill(NO_STACK);
    for (let stack = 0; stack < stacks.size; stack++) {
      const depth = stacks.depth(stack);
      if (depth === 0) continue;
      let bits = 0;
      let naming = stacks.frameNumber(stack, 0);
      for (let i = 0; i < depth; i++) {
        const frame = stacks.frameNumber(stack, i);
        bits |= signs[frame] as number;
        if ((ranks[frame] as number) < (ranks[naming] as number)) naming = frame;
      }
      this.siteOf[stack] = numbers.of(naming);
      this.categoryOf[stack] = categoryOf(bits);
    }
    this.names = numbers.names;
    this.keys = numbers.keys;
  }
}

class SiteNumbers {
  readonly names = ['no stack'];
  readonly keys = [''];
  readonly #frames: readonly Frame[];
  readonly #byKey = new Map<string, number>();
  /** By frame; 0: not asked for yet. */
  readonly #byFrame: Uint32Array;

  constructor(frames: readonly Frame[]) {
    this.#frames = frames;
    this.#byFrame = new Uint32Array(frames.length);
  }

  of(number: number): number {
    const known = this.#byFrame[number] as number;
    if (known !== 0) return known;
    const frame = this.#frames[number] as Frame;
    const name = formatCallSite(frame);
    // Two files of the same name are two sites.
    const key = `${frame.filename}\0${name}`;
    let site = this.#byKey.get(key);
    if (site === undefined) {
      site = this.names.push(name) - 1;
      this.keys.push(key);
      this.#byKey.set(key, site);
    }
    this.#byFrame[number] = site;
    return site;
  }
}
