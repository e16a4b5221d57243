// Everything that the README and the pages of docs/ show is run as it stands there: programs against the built package,
// type checked and with the output that their comments promise, and commands. Needs dist; knows nothing of the content.

import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { transformSync } from 'esbuild';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const root = join(import.meta.dirname, '..', '..');
const scratch = mkdtempSync(join(tmpdir(), 'cudalloc-readme-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

interface Block {
  readonly name: string;
  readonly language: string;
  readonly text: string;
}

function blocksOf(page: string): readonly Block[] {
  const text = readFileSync(join(root, page), 'utf8');
  return [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map((match) => ({
    name: `${page}:${text.slice(0, match.index).split('\n').length}`,
    language: match[1]!,
    text: match[2]!,
  }));
}

const isPage = (name: string): boolean => name.endsWith('.md');
const pages = [
  'README.md',
  ...readdirSync(join(root, 'docs'))
    .filter(isPage)
    .map((name) => join('docs', name)),
];
const blocks = pages.flatMap(blocksOf);
const programs = blocks.filter(({ language }) => language === 'ts');
const fileOf = ({ name }: Block): string => `${name.replaceAll(/[^\w]/g, '_')}.ts`;

/** What `console.log(...); // text` promises, in order; a line without a comment prints what it likes. */
function promised(program: string): readonly (RegExp | string)[] {
  const lines = program.split('\n').filter((line) => line.includes('console.log('));
  return lines.map((line) => /console\.log\(.*\);\s*\/\/ (.*)$/.exec(line)?.[1] ?? /^[\s\S]*$/);
}

beforeAll(() => {
  mkdirSync(join(scratch, 'node_modules', '@types'), { recursive: true });
  symlinkSync(root, join(scratch, 'node_modules', 'cudalloc'), 'dir');
  symlinkSync(join(root, 'node_modules', '@types', 'node'), join(scratch, 'node_modules', '@types', 'node'), 'dir');
  symlinkSync(join(root, 'node_modules', 'undici-types'), join(scratch, 'node_modules', 'undici-types'), 'dir');
  writeFileSync(join(scratch, 'package.json'), '{ "type": "module" }');
  const compilerOptions = {
    target: 'es2022',
    module: 'nodenext',
    lib: ['es2023', 'esnext.disposable'],
    types: ['node'],
    strict: true,
    skipLibCheck: false,
    noEmit: true,
  };
  writeFileSync(join(scratch, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }));
  for (const program of programs) writeFileSync(join(scratch, fileOf(program)), program.text);
});

test('there are programs and commands', () => {
  expect(programs.length).toBeGreaterThan(2);
  expect(blocks.filter(({ language }) => language === 'sh').length).toBeGreaterThan(1);
});

test('the programs type check, with strict settings and the types of the package checked too', () => {
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const run = spawnSync(process.execPath, [tsc, '-p', scratch], { encoding: 'utf8' });
  expect(run.stdout + run.stderr).toBe('');
  expect(run.status).toBe(0);
});

describe('programs', () => {
  test.each(programs.map((program) => [program.name, program] as const))('%s', (_name, program) => {
    const { code } = transformSync(program.text, { loader: 'ts', format: 'esm', target: 'node20' });
    const file = join(scratch, fileOf(program).replace(/\.ts$/, '.mjs'));
    writeFileSync(file, code);
    const run = spawnSync(process.execPath, [file], { cwd: scratch, encoding: 'utf8' });
    expect(run.stderr).toBe('');
    expect(run.status).toBe(0);
    const expected = promised(program.text);
    const printed = run.stdout.split('\n').slice(0, -1);
    for (const [index, want] of expected.entries()) {
      if (typeof want === 'string') expect(printed[index]).toBe(want);
      else expect(printed[index]).toMatch(want);
    }
    // A text block that follows shows what is printed, with its own line breaks.
    const next = blocks[blocks.indexOf(program) + 1];
    if (next?.language === 'text' && next.name.startsWith(program.name.split(':')[0]!)) {
      expect(run.stdout.replaceAll(/\s+/g, ' ')).toContain(next.text.trim().replaceAll(/\s+/g, ' '));
    }
  });
});

describe('commands', () => {
  const commands = blocks
    .filter(({ language }) => language === 'sh')
    .flatMap(({ text }) => text.split('\n'))
    .map((line) => line.replace(/\s+#.*$/, '').trim())
    .filter((line) => line !== '');

  test('each is either one of the two commands of a clone or the program itself', () => {
    expect(commands.filter((line) => !/^(npm ci && npm (run demo|test)|npx cudalloc .+)$/.test(line))).toEqual([]);
  });

  // The files that the commands write, and read, stay out of the tree.
  beforeAll(() => {
    symlinkSync(join(root, 'test'), join(scratch, 'test'), 'dir');
  });

  // `build` is run in a copy by the test of the packed package: here it would replace the addon under other tests.
  const ours = commands.filter((line) => line.startsWith('npx cudalloc ') && line !== 'npx cudalloc build');
  test.each(ours)('%s', (line) => {
    const args = line.split(/\s+/).slice(2);
    const output = execFileSync(process.execPath, [join(root, 'dist', 'cli', 'main.js'), ...args], {
      cwd: scratch,
      encoding: 'utf8',
    });
    expect(output).not.toBe('');
  });
});
