// Stacks as frames: what V8 writes, without this package's own.

import { expect, test } from 'vitest';
import { captureFrames, parseStack } from '../../lib/allocator/stack.js';

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
    { name: 'Model.train', filename: 'file:///home/user/model.mjs', line: 200 },
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

test('captures the caller, innermost first', () => {
  function inner(): ReturnType<typeof captureFrames> {
    return captureFrames();
  }
  function outer(): ReturnType<typeof captureFrames> {
    return inner();
  }
  expect(
    outer()
      .slice(0, 2)
      .map((frame) => frame.name),
  ).toEqual(['inner', 'outer']);
});
