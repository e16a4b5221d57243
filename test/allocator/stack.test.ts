// Stacks as frames: what V8 writes, without this package's own.

import { describe, expect, test } from 'vitest';
import { parseStack, StackRecorder } from '../../lib/allocator/stack.js';
import type { Frame } from '../../lib/snapshot/model.js';

test('reads every form of line that V8 writes', () => {
  const stack = [
    'Error: with (brackets) and a line',
    '    at work (/home/user/app.js:10:5)',
    '    at async Model.train (file:///home/user/model.mjs:200:11)',
    '    at new Tensor (C:\\\\code\\\\tensor.js:7:1)',
    '    at Object.<anonymous> (/home/user/main.js:1:1)',
    '    at /home/user/callback.js:3:9',
    '    at async Promise.all (index 0)',
    '    at node:internal/main/run_main_module:28:49',
    '    at native',
  ].join('\n');
  expect(parseStack(stack)).toEqual([
    { name: 'work', filename: '/home/user/app.js', line: 10 },
    { name: 'Model.train', filename: '/home/user/model.mjs', line: 200 },
    { name: 'new Tensor', filename: 'C:\\\\code\\\\tensor.js', line: 7 },
    { name: 'Object.<anonymous>', filename: '/home/user/main.js', line: 1 },
    { name: '<anonymous>', filename: '/home/user/callback.js', line: 3 },
    { name: '<anonymous>', filename: 'node:internal/main/run_main_module', line: 28 },
  ]);
});

test('leaves out the frames of the allocator, and only those', () => {
  const own = new URL('../../lib/allocator/heap.ts', import.meta.url);
  const lines = [own.href, own.pathname].map((file) => `    at CachingAllocator.malloc (${file}:1:2)`);
  // A folder of the user's may have the same name.
  const foreign = '/app/lib/allocator/main.js';
  expect(parseStack([...lines, `    at caller (${foreign}:5:6)`].join('\n'))).toEqual([
    { name: 'caller', filename: foreign, line: 5 },
  ]);
});

test('names the path that a URL stands for', () => {
  const stack = [
    '    at a (file:///home/user/a%20model.mjs:1:1)',
    '    at b (file:///C:/code/b.mjs:2:1)',
    '    at c (file:///odd%zz.mjs:3:1)',
    '    at d (https://example.org/d.mjs:4:1)',
  ].join('\n');
  expect(parseStack(stack).map(({ filename }) => filename)).toEqual([
    '/home/user/a model.mjs',
    'C:/code/b.mjs',
    '/odd%zz.mjs',
    'https://example.org/d.mjs',
  ]);
});

describe('a recorder', () => {
  const recorder = new StackRecorder();
  const inner = (): readonly Frame[] => recorder.capture();
  const outer = (): readonly Frame[] => inner();
  const deep = (depth: number): readonly Frame[] => (depth === 0 ? recorder.capture() : deep(depth - 1));

  test('captures the caller, innermost first', () => {
    expect(
      outer()
        .slice(0, 2)
        .map((frame) => frame.name),
    ).toEqual(['inner', 'outer']);
  });

  test('gives equal stacks as one array, different ones with the frames they share', () => {
    const stacks = Array.from({ length: 3 }, () => outer());
    expect(new Set(stacks).size).toBe(1);
    const [one, other] = [inner(), inner()];
    expect(one).not.toBe(other);
    expect(one[0]).toBe(other[0]);
    expect(one.at(-1)).toBe(other.at(-1));
  });

  test('goes as deep as Error.stackTraceLimit says, also where that changes', () => {
    const limit = Error.stackTraceLimit;
    try {
      for (const depth of [50, 3, 0, 20]) {
        Error.stackTraceLimit = depth;
        expect(deep(60)).toHaveLength(depth);
      }
      Error.stackTraceLimit = Number.POSITIVE_INFINITY;
      expect(deep(60).length).toBeGreaterThan(60);
      expect(Error.stackTraceLimit).toBe(Number.POSITIVE_INFINITY);
    } finally {
      Error.stackTraceLimit = limit;
    }
  });

  test("works beside a program's own way of preparing stacks, and leaves it in place", () => {
    const own = (): string => 'mine';
    const { prepareStackTrace } = Error;
    try {
      Error.prepareStackTrace = own;
      expect(inner()[0]?.name).toBe('inner');
      expect(Error.prepareStackTrace).toBe(own);
    } finally {
      (Error as { prepareStackTrace?: unknown }).prepareStackTrace = prepareStackTrace;
    }
  });

  test('remembers a bounded number of stacks, and starts afresh beyond', () => {
    const stacks: (readonly Frame[])[] = [];
    for (const others of [0, 0, 5000]) {
      for (let i = 0; i < others; i++) new Function('capture', `${'\n'.repeat(i)}return capture();`)(inner);
      stacks.push(outer());
    }
    expect(stacks[1]).toBe(stacks[0]);
    expect(stacks[2]).not.toBe(stacks[0]);
    expect(stacks[2]).toEqual(stacks[0]);
  });
});
