// The arrows of the architecture are lint rules in biome.json: here each is broken on purpose in a scratch project, and
// each permitted import is shown to pass. Knows only the rules' outcome, not how they are written.

import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';

const root = join(import.meta.dirname, '..', '..');
const biome = join(root, 'node_modules', '@biomejs', 'biome', 'bin', 'biome');
const scratch = mkdtempSync(join(tmpdir(), 'cudalloc-layers-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

/** The file that imports, what it may import, what it may not. */
const layers: readonly (readonly [file: string, allowed: readonly string[], refused: readonly string[]])[] = [
  ['lib/errors.ts', [], ['./units.js', './device/types.js', 'node:fs']],
  ['lib/units.ts', ['./errors.js'], ['./device/types.js', './allocator/block.js', 'node:util']],
  ['lib/device/types.ts', [], ['../errors.js', './sim.js', 'node:fs']],
  ['lib/snapshot/model.ts', ['./stacks.js'], ['../errors.js', './trace.js', 'node:fs']],
  [
    'lib/device/native.ts',
    ['./types.js', '../errors.js', '../../binding.js', 'node:module'],
    ['../allocator/block.js', '../pages/pages.js', '../index.js', '../cli/main.js', 'node-gyp-build'],
  ],
  [
    'lib/device/sim.ts',
    ['./types.js', '../errors.js'],
    ['./native.js', './open.js', 'node:fs', '../allocator/block.js'],
  ],
  [
    'lib/pages/pages.ts',
    ['./range.js', '../device/types.js', '../errors.js'],
    ['../device/native.js', '../device/sim.js', '../allocator/block.js', 'node:fs', 'fs', '../snapshot/model.js'],
  ],
  [
    'lib/allocator/caching-allocator.ts',
    ['./block.js', '../pages/pages.js', '../snapshot/model.js', '../device/types.js', '../units.js'],
    [
      '../device/native.js',
      '../device/open.js',
      '../snapshot/trace.js',
      '../analysis/replay.js',
      'node:fs',
      'commander',
    ],
  ],
  ['lib/snapshot/trace.ts', ['./model.js', '../errors.js'], ['./files.js', 'node:fs', '../allocator/block.js']],
  ['lib/snapshot/files.ts', ['./trace.js', 'node:fs'], ['../allocator/block.js', '../cli/main.js', 'commander']],
  [
    'lib/analysis/replay.ts',
    ['../allocator/block.js', '../snapshot/trace.js', '../device/sim.js', '../device/types.js'],
    ['../snapshot/files.js', '../device/native.js', '../device/open.js', '../cli/main.js', 'node:fs'],
  ],
  ['lib/kv/cache.ts', ['../allocator/block.js', '../pages/pages.js'], ['../tiering/disk.js', '../analysis/replay.js']],
  ['lib/tiering/disk.ts', ['../allocator/block.js', 'node:fs'], ['../kv/cache.js', '../cli/main.js']],
  ['lib/viewer/view.ts', ['../analysis/report.js', '../snapshot/model.js'], ['../allocator/block.js', 'node:fs']],
  ['lib/metrics/watch.ts', ['../allocator/block.js', 'node:http'], ['../cli/main.js', '../index.js']],
  ['lib/cli/main.ts', ['commander', '../device/open.js', 'node:fs'], ['../index.js']],
  ['lib/cli/commands/demo.ts', ['../../allocator/block.js', '../render/table.js'], ['../../index.js']],
  // Round-about spellings of a refused path.
  ['lib/pages/roundabout.ts', [], ['./../allocator/block.js', '../device/../allocator/block.js']],
];

interface Diagnostic {
  readonly category: string;
  readonly location: { readonly path: string | { readonly file: string }; readonly start?: { readonly line: number } };
}

function lint(folder: string): readonly { file: string; rule: string; line: number }[] {
  const run = spawnSync(process.execPath, [biome, 'lint', '--reporter=json', '--max-diagnostics=none', '.'], {
    cwd: folder,
    encoding: 'utf8',
  });
  const report = JSON.parse(run.stdout) as { diagnostics: readonly Diagnostic[] };
  return report.diagnostics.map(({ category, location }) => ({
    file: typeof location.path === 'string' ? location.path : location.path.file,
    rule: category.replace(/^lint\//, ''),
    line: location.start?.line ?? 0,
  }));
}

function project(name: string, files: Readonly<Record<string, string>>): string {
  const folder = join(scratch, name);
  mkdirSync(folder);
  cpSync(join(root, 'biome.json'), join(folder, 'biome.json'));
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), text);
  }
  return folder;
}

describe('layer rules', () => {
  // One line an import, in the order given, so that a diagnostic's line names the import.
  const statements = (specifiers: readonly string[]) =>
    specifiers.map((specifier, index) => `export { x as x${index} } from '${specifier}';\n`).join('');
  const found = lint(
    project(
      'layers',
      Object.fromEntries(layers.map(([file, allowed, refused]) => [file, statements([...refused, ...allowed])])),
    ),
  ).filter(({ rule }) => rule === 'style/noRestrictedImports');

  test.each(layers)('%s', (file, _allowed, refused) => {
    const lines = found.filter((diagnostic) => diagnostic.file === file).map(({ line }) => line);
    expect(lines.sort((a, b) => a - b)).toEqual(refused.map((_, index) => index + 1));
  });

  test('type imports, re-exports and dynamic imports are covered too', () => {
    const forms = [
      "import type { A } from '../allocator/block.js';",
      "import { type B } from '../allocator/block.js';",
      "export * from '../allocator/block.js';",
      "export type { C } from '../allocator/block.js';",
      "export const d = await import('../allocator/block.js');",
    ];
    const diagnostics = lint(
      project('forms', { 'lib/pages/forms.ts': `${forms.join('\n')}\nexport type F = A | B;\n` }),
    );
    const lines = diagnostics.filter(({ rule }) => rule === 'style/noRestrictedImports').map(({ line }) => line);
    expect(lines.sort((a, b) => a - b)).toEqual(forms.map((_, index) => index + 1));
  });
});

test.each([
  [
    'suspicious/noImportCycles',
    {
      'lib/kv/a.ts': "import { b } from './b.js';\nexport const a = (): number => b();\n",
      'lib/kv/b.ts': "import { a } from './a.js';\nexport const b = (): number => a();\n",
    },
  ],
  ['style/noDefaultExport', { 'lib/kv/a.ts': 'export default 1;\n' }],
  ['suspicious/noExplicitAny', { 'lib/kv/a.ts': 'export const a = (x: any): unknown => x;\n' }],
  ['style/noNonNullAssertion', { 'lib/kv/a.ts': 'export const a = (x: number[]): number => x[0]!;\n' }],
  ['suspicious/noConsole', { 'lib/kv/a.ts': "export const a = (): void => console.log('x');\n" }],
])('%s is an error in lib', (rule, files) => {
  expect(lint(project(rule.replace('/', '-'), files)).map((diagnostic) => diagnostic.rule)).toContain(rule);
});
