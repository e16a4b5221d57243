// How a stack is named in a line: by the innermost frame that says something about the program. Must not know what the stack belongs to.

import { EMPTY_STACK, type Frame, type StackTable } from './model.js';

/** Files of these folders are everybody's: PyTorch's own, Python's library, installed JavaScript. What follows is the path inside. */
const LIBRARY = /(?:^|[\\/])(torch|python3(?:\.\d+)?|node_modules)[\\/](?!site-packages|dist-packages)|^(node:)/;
const SCRIPT = /\.(?:py|pyx|pyi|ipynb|[cm]?[jt]sx?)$/;

/** The library folder that a file is in (`torch`, `python3.10`, `node_modules`, `node:`); null for files of the program. */
export function libraryOf(filename: string): string | null {
  const match = LIBRARY.exec(filename);
  return match === null ? null : ((match[1] ?? match[2]) as string);
}

/** The extension of a file of Python or JavaScript; null for machine code and for what has no file. */
export function scriptExtension(filename: string): string | null {
  return SCRIPT.exec(filename)?.[0] ?? null;
}

/** Machine code that names an operation: PyTorch's operators, and what its backward pass runs. */
const OPERATION = /\bautograd::generated::|\bat::_ops::/;
/** Machine code that every stack begins with. */
const RECORDING = /\bunwind::|CapturedTraceback|gather_with_cpp|CachingAllocator/;

/**
 * The innermost frame of the program itself, so that all allocations of `torch.nn.Linear` do not look alike; else the innermost of a
 * script. Stacks of machine code only, as those of a backward pass, have the innermost operation, else the innermost frame that does not
 * belong to the recording. Null for the stack without frames. Linear in its depth.
 */
export function callSite(stacks: StackTable, stack: number): Frame | null {
  return stack === EMPTY_STACK ? null : namingFrame(stacks.frames(stack));
}

/** The same of frames, innermost first. */
export function namingFrame<F extends Pick<Frame, 'name' | 'filename' | 'line'>>(frames: readonly F[]): F | null {
  let best: F | null = null;
  let lowest = Number.POSITIVE_INFINITY;
  for (const frame of frames) {
    const rank = namingRank(frame);
    if (rank === 0) return frame;
    if (rank < lowest) {
      best = frame;
      lowest = rank;
    }
  }
  return best;
}

/**
 * How little a frame says about the program: a stack is named by the innermost of those with the lowest rank. 0: a script of the program;
 * then scripts of libraries, operations, other machine code, and what belongs to the recording.
 */
export function namingRank({ name, filename }: Pick<Frame, 'name' | 'filename'>): number {
  if (scriptExtension(filename) !== null) return libraryOf(filename) === null ? 0 : 1;
  if (OPERATION.test(name)) return 2;
  return RECORDING.test(name) ? 4 : 3;
}

/** `name (file.py:12)`: the file without its folders, the name of machine code without its arguments. */
export function formatCallSite({ name, filename, line }: Pick<Frame, 'name' | 'filename' | 'line'>): string {
  if (scriptExtension(filename) === null)
    return name.replaceAll('(anonymous namespace)::', '').replace(/(?<=.)\(.*$/s, '');
  const file = filename.slice(Math.max(filename.lastIndexOf('/'), filename.lastIndexOf('\\')) + 1);
  return `${name} (${file}:${line})`;
}
