// `npm ci` runs scripts/prepare.mjs each time: when all is built it has to do nothing and say nothing.

import { spawnSync } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '..', '..');

function outputs(): ReadonlyMap<string, number> {
  const names = readdirSync(join(root, 'dist'), { recursive: true, encoding: 'utf8' }).map((name) =>
    join('dist', name),
  );
  const addons = readdirSync(join(root, 'build', 'Release')).filter((name) => name.endsWith('.node'));
  const files = [...names, ...addons.map((name) => join('build', 'Release', name))];
  return new Map(files.map((name) => [name, statSync(join(root, name)).mtimeMs]));
}

test('prepare does nothing, and says nothing, when all is built', () => {
  const before = outputs();
  const run = spawnSync(process.execPath, [join(root, 'scripts', 'prepare.mjs')], { cwd: root, encoding: 'utf8' });
  expect(run.stdout + run.stderr).toBe('');
  expect(run.status).toBe(0);
  expect([...before.keys()].some((name) => name.endsWith('.node'))).toBe(true);
  expect(outputs()).toEqual(before);
});
