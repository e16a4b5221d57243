// `npm ci` runs scripts/prepare.mjs each time: when all is built it has to do nothing and say nothing.

import { spawnSync } from 'node:child_process';
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../support/child.js';

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

/** The repository's sources in a folder of their own, compiled, with an addon that is new enough. */
function copyOfRepository(): string {
  const copy = temporaryFolder();
  for (const name of ['lib', 'scripts', 'dist'])
    cpSync(join(root, name), join(copy, name), { recursive: true, preserveTimestamps: true });
  for (const name of ['package.json', 'tsconfig.json', 'tsconfig.viewer.json', 'binding.d.ts'])
    cpSync(join(root, name), join(copy, name), { preserveTimestamps: true });
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'), 'dir');
  mkdirSync(join(copy, 'build', 'Release'), { recursive: true });
  for (const name of ['Release/cudalloc.node', 'lib.stamp']) writeFileSync(join(copy, 'build', name), '');
  return copy;
}

test('prepare makes the page where it is missing or older than its sources, and keeps it', () => {
  const copy = copyOfRepository();
  const page = join(copy, 'dist', 'viewer', 'page.html');
  const prepare = () => spawnSync(process.execPath, [join(copy, 'scripts', 'prepare.mjs')], { encoding: 'utf8' });
  const quietly = () => {
    const { status, stdout, stderr } = prepare();
    expect({ status, output: stdout + stderr }).toEqual({ status: 0, output: '' });
    return readFileSync(page, 'utf8');
  };
  rmSync(page);
  const stale = join(copy, 'dist', 'viewer', 'gone.js');
  writeFileSync(stale, '');
  const first = quietly();
  expect(first).toBe(readFileSync(join(root, 'dist', 'viewer', 'page.html'), 'utf8'));
  expect(existsSync(stale)).toBe(false);
  const { mtimeMs } = statSync(page);
  expect(quietly()).toBe(first);
  expect(statSync(page).mtimeMs).toBe(mtimeMs);
  appendFileSync(join(copy, 'lib', 'viewer', 'page', 'style.css'), '\n.a-new-rule { color: red; }\n');
  expect(quietly()).toContain('.a-new-rule{color:red}');
  appendFileSync(join(copy, 'lib', 'viewer', 'page', 'main.tsx'), '\nconst = ;\n');
  const { status, stderr } = prepare();
  expect(status).toBe(1);
  expect(stderr).toMatch(/main\.tsx[\s\S]*cudalloc: the viewer's page could not be bundled \(the errors are above\)\./);
});
