// Runs Python, where tests compare with what Python itself reads. Without it such tests are skipped; with CUDALLOC_REQUIRE_SHARED=1 they fail.

import { spawnSync } from 'node:child_process';

const REQUIRED = process.env.CUDALLOC_REQUIRE_SHARED === '1';

/** Whether tests that need Python are to run. */
export const hasPython = REQUIRED || spawnSync('python3', ['--version']).status === 0;

/** Runs a program. @param input what it reads @returns what it printed @throws Error with its messages when it fails */
export function python(program: string, args: readonly string[] = [], input = ''): string {
  const { status, stdout, stderr, error } = spawnSync('python3', ['-c', program, ...args], {
    encoding: 'utf8',
    input,
    maxBuffer: 2 ** 28,
  });
  if (status !== 0) throw new Error(`python3: ${error?.message ?? stderr}`);
  return stdout;
}

/** For pairs of pickles: `[]`, or for each that differs its number. Keys must come in the same order, tuples be tuples. */
export const COMPARE_PICKLES = `
import json, pickle, sys
def same(a, b):
    todo, seen = [(a, b)], set()
    while todo:
        x, y = todo.pop()
        if (id(x), id(y)) in seen: continue
        seen.add((id(x), id(y)))
        if isinstance(x, dict):
            if not isinstance(y, dict) or list(x) != list(y): return False
            todo.extend((x[k], y[k]) for k in x)
        elif isinstance(x, (list, tuple)):
            if type(x) != type(y) or len(x) != len(y): return False
            todo.extend(zip(x, y))
        elif isinstance(x, bool) != isinstance(y, bool) or (x != y and not (x != x and y != y)): return False
    return True
load = lambda path: pickle.load(open(path, 'rb'))
pairs = list(zip(sys.argv[1::2], sys.argv[2::2]))
different = []
for i, (a, b) in enumerate(pairs):
    a, b = load(a), load(b)
    if not (same(a, b) and same(b, a)): different.append(i)
print(json.dumps(different))
`;
