// The package without its addon, or with one that does not fit: the error says what was tried and the one command that mends it,
// and whatever needs no device works.

import { cpSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { compiled, type Ended, ROOT, runNode, runProgram, temporaryFolder } from '../support/child.js';

/** The compiled package as a consumer has it, without the addon; `files` are put in besides. */
function packageWithoutAddon(files: Readonly<Record<string, string>> = {}): string {
  const root = temporaryFolder();
  cpSync(join(ROOT, 'dist'), join(root, 'dist'), { recursive: true });
  cpSync(join(ROOT, 'package.json'), join(root, 'package.json'));
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(root, path, '..'), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return root;
}

function openIn(root: string, backend: string): Promise<Ended> {
  return runProgram(`import { openDevice } from ${compiled('device/open.js', root)};
    try {
      console.log(openDevice({ backend: '${backend}' }).backend);
    } catch ({ name, code, message }) {
      console.log(JSON.stringify({ code, message }));
    }`);
}

test.each(['auto', 'mock', 'cuda'])('%s: the error names what was tried and the command', async (backend) => {
  const root = packageWithoutAddon();
  const { code, stderr, stdout } = await openIn(root, backend);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const error = JSON.parse(stdout) as { code: string; message: string };
  expect(error.code).toBe('ERR_CUDALLOC_ADDON_MISSING');
  for (const part of [
    `${process.platform}-${process.arch}`,
    `Node ${process.versions.node}`,
    join(root, 'build', 'Release'),
    join(root, 'prebuilds', `${process.platform}-${process.arch}`),
    'npx cudalloc build',
  ]) {
    expect(error.message).toContain(part);
  }
  expect(error.message).toMatch(/\((glibc [\d.]+|musl)\)/);
});

test("in the repository the command is the repository's", async () => {
  const { stdout } = await openIn(packageWithoutAddon({ 'tsconfig.json': '{}' }), 'auto');
  expect(stdout).toContain('npm run build');
});

test('the simulated device works', async () => {
  expect(await openIn(packageWithoutAddon(), 'sim')).toMatchObject({ code: 0, stdout: 'sim\n', stderr: '' });
});

test("a file that is no addon: the reason is the loader's own", async () => {
  const { stdout } = await openIn(packageWithoutAddon({ 'build/Release/cudalloc.node': 'not a library' }), 'auto');
  const { code, message } = JSON.parse(stdout) as { code: string; message: string };
  expect(code).toBe('ERR_CUDALLOC_ADDON_MISSING');
  expect(message).toMatch(/cudalloc\.node could not be loaded/);
  expect(message).toMatch(/reason: .*(invalid ELF header|file too short)/);
});

test('nothing is built, fetched or written by trying', async () => {
  const root = packageWithoutAddon();
  await openIn(root, 'auto');
  expect(['build', 'prebuilds'].filter((name) => existsSync(join(root, name)))).toEqual([]);
});

test('doctor says so and ends with 0', async () => {
  const root = packageWithoutAddon();
  const main = join(root, 'dist', 'cli', 'main.js');
  const human = await runNode([main, 'doctor']);
  expect({ code: human.code, stderr: human.stderr }).toEqual({ code: 0, stderr: '' });
  expect(human.stdout).toContain('npx cudalloc build');
  const json = await runNode([main, 'doctor', '--json']);
  expect({ code: json.code, stderr: json.stderr }).toEqual({ code: 0, stderr: '' });
  expect(JSON.parse(json.stdout)).toMatchObject({
    addon: { works: false, reason: expect.stringContaining('npx cudalloc build') },
    devices: [],
    auto: null,
    features: {
      sim: { works: true },
      mock: { works: false },
      cuda: { works: false },
      expandable_segments: { works: false },
    },
  });
});
