// The count that CI ends with is only worth something if nothing that failed, was skipped or did not run can hide: real
// reports of real runners, made here, are counted. Knows only what scripts/count-tests.mjs prints.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, expect, test } from 'vitest';

const root = join(import.meta.dirname, '..', '..');
const scratch = mkdtempSync(join(tmpdir(), 'cudalloc-count-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

function write(name: string, text: string): string {
  const path = join(scratch, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  return path;
}

function count(...reports: readonly string[]): { counts: string; notes: string } {
  const run = spawnSync(process.execPath, [join(root, 'scripts', 'count-tests.mjs'), ...reports], { encoding: 'utf8' });
  return { counts: run.stdout.trim(), notes: run.stderr };
}

/** Runs vitest over the given files and returns its report. */
function vitest(name: string, files: Readonly<Record<string, string>>): string {
  for (const [file, text] of Object.entries(files)) write(join(name, file), text);
  const report = join(scratch, `${name}.json`);
  const cli = join(root, 'node_modules', 'vitest', 'vitest.mjs');
  const args = ['run', '--globals', '--reporter=json', `--outputFile=${report}`];
  spawnSync(process.execPath, [cli, ...args], { cwd: join(scratch, name), encoding: 'utf8' });
  expect(existsSync(report)).toBe(true);
  return report;
}

function ctest(name: string, commands: string): string {
  const folder = dirname(
    write(
      join(name, 'CMakeLists.txt'),
      `cmake_minimum_required(VERSION 3.20)\nproject(x NONE)\nenable_testing()\n${commands}`,
    ),
  );
  const configured = spawnSync('cmake', ['-S', folder, '-B', join(folder, 'b')], { encoding: 'utf8' });
  expect(configured.status, configured.stderr).toBe(0);
  const run = spawnSync('ctest', ['--test-dir', join(folder, 'b')], { encoding: 'utf8' });
  return write(`${name}.log`, run.stdout + run.stderr);
}

test('vitest: passed, failed, skipped, todo, a file that cannot be loaded', () => {
  const report = vitest('mixed', {
    'a.test.mjs': "test('good', () => {});\ntest('bad', () => { throw new Error('x'); });\n",
    'b.test.mjs': "test('good', () => {});\ntest.skip('left out', () => {});\ntest.todo('later');\n",
    'c.test.mjs': "import './absent.mjs';\n",
  });
  const { counts, notes } = count(report);
  expect(counts).toBe('2 4');
  expect(notes).toMatch(/failed: .*bad/);
  expect(notes).toMatch(/(skipped|pending): .*left out/);
  expect(notes).toMatch(/todo: .*later/);
  expect(notes).toMatch(/did not run: .*c\.test\.mjs/);
});

test('ctest: passed, failed, skipped, disabled, not found', () => {
  const log = ctest(
    'native',
    `add_test(NAME good COMMAND cmake -E true)
     add_test(NAME bad COMMAND cmake -E false)
     add_test(NAME left_out COMMAND cmake -E false)
     set_tests_properties(left_out PROPERTIES SKIP_RETURN_CODE 1)
     add_test(NAME off COMMAND cmake -E true)
     set_tests_properties(off PROPERTIES DISABLED TRUE)
     add_test(NAME absent COMMAND /absent)\n`,
  );
  const { counts, notes } = count(log);
  expect(counts).toBe('1 4');
  for (const name of ['bad', 'left_out', 'off', 'absent']) expect(notes).toContain(name);
  const lenient = count('--may-skip=gpu,left_out', log);
  expect(lenient.counts).toBe('1 3');
  expect(lenient.notes).toContain('not run here');
});

test('reports are added up; a missing or empty one counts as a failure', () => {
  const good = vitest('good', { 'a.test.mjs': "test('good', () => {});\n" });
  const native = ctest('one', 'add_test(NAME good COMMAND cmake -E true)\n');
  expect(count(good, native).counts).toBe('2 0');
  expect(count(good, join(scratch, 'absent.json')).counts).toBe('1 1');
  expect(count(good, write('empty.log', 'No tests were found!!!\n')).counts).toBe('1 1');
  expect(count(good, write('broken.json', '{')).counts).toBe('1 1');
});
