// JavaScript stacks as frames, equal ones shared, so that a million events with stacks cost a million references and no more. Must not
// know who asks.

import type { Frame } from '../snapshot/model.js';

/** `at name (file:line:column)` or `at file:line:column`. */
const FRAME = /^\s*at (?:(?:async )?(.*?) \()?(.*?):(\d+):\d+\)?$/;

/** The folder of this file, whose frames are of no interest to the caller; none when it was bundled into another file. */
const OWN_FOLDER = /^(.*\/)stack\.[jt]s$/.exec(pathOf((import.meta.url as string | undefined) ?? ''))?.[1];

/** More than the allocator ever has of its own on a stack. */
const OWN_DEPTH = 24;

/** Texts and lines that are remembered; a program with more starts to remember afresh. */
const MOST_TEXTS = 4096;
const MOST_LINES = 65_536;

export class StackRecorder {
  /** By what V8 writes. */
  readonly #stacks = new Map<string, readonly Frame[]>();
  /** By line; null for a line that is no frame of the caller's. */
  readonly #frames = new Map<string, Frame | null>();
  #depth = 0;

  /**
   * The stack of the caller, innermost first, without the allocator's own frames: as many as `Error.stackTraceLimit` allows. The same
   * for everything that one call leads to; equal stacks are one array as a rule. Costs microseconds. Never throws.
   */
  capture(): readonly Frame[] {
    const depth = typeof Error.stackTraceLimit === 'number' ? Error.stackTraceLimit : 0;
    if (depth !== this.#depth || this.#stacks.size >= MOST_TEXTS) this.#stacks.clear();
    if (this.#frames.size >= MOST_LINES) this.#frames.clear();
    this.#depth = depth;
    const text = stackText(depth + OWN_DEPTH);
    let frames = this.#stacks.get(text);
    if (frames === undefined) {
      frames = framesOf(text, (line) => this.#frame(line)).slice(0, depth);
      this.#stacks.set(text, frames);
    }
    return frames;
  }

  #frame(line: string): Frame | null {
    let frame = this.#frames.get(line);
    if (frame === undefined) {
      frame = parseLine(line);
      this.#frames.set(line, frame);
    }
    return frame;
  }
}

/** What V8 writes as frames, innermost first, without the allocator's own. */
export function parseStack(text: string): readonly Frame[] {
  return framesOf(text, parseLine);
}

function stackText(depth: number): string {
  // A program may have its own way of preparing stacks, which need not give text; and where errors are frozen, none of this is allowed.
  const { prepareStackTrace, stackTraceLimit } = Error;
  try {
    Reflect.set(Error, 'prepareStackTrace', undefined);
    Reflect.set(Error, 'stackTraceLimit', depth);
    return String(new Error().stack ?? '');
  } finally {
    Reflect.set(Error, 'prepareStackTrace', prepareStackTrace);
    Reflect.set(Error, 'stackTraceLimit', stackTraceLimit);
  }
}

function framesOf(text: string, frameOf: (line: string) => Frame | null): Frame[] {
  return text
    .split('\n')
    .map(frameOf)
    .filter((frame) => frame !== null);
}

function parseLine(line: string): Frame | null {
  const match = FRAME.exec(line);
  if (match === null) return null;
  const filename = pathOf(match[2] ?? '');
  if (OWN_FOLDER !== undefined && filename.startsWith(OWN_FOLDER)) return null;
  return { name: match[1] ?? '<anonymous>', filename, line: Number(match[3]) };
}

/** The path that a `file:` URL names; anything else as it is. */
function pathOf(place: string): string {
  if (!place.startsWith('file://')) return place;
  const path = place.slice(/^file:\/\/\/[A-Za-z]:\//.test(place) ? 8 : 7);
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
