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

/** What the viewer may use of the allocator. */
const SETTINGS = (up: string): readonly string[] =>
  ['config', 'config-parser', 'format-config', 'policy'].map((name) => `${up}/allocator/${name}.js`);

/** From two folders below lib: ways to something that no pure file may import. */
const ROUNDABOUT: readonly string[] = [
  '..',
  '../..',
  '../../',
  './..',
  './../..',
  '../.',
  './../../device/native.js',
  '.././../device/native.js',
  '..//../device/native.js',
  '../..//device/native.js',
  '../../device/./native.js',
  '../report/../../device/native.js',
  '../../analysis/../device/native.js',
  '../../snapshot/pickle/../files.js',
  '../../snapshot/./files.js',
  '../../snapshot//files.js',
  '../../snapshot/%66iles.js',
  '../%2e%2e/device/native.js',
  './%2e%2e/%2e%2e/device/native.js',
  '../../../lib/device/native.js',
  'cudalloc',
  'file:///lib/device/native.js',
  '/lib/device/native.js',
];

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
      '../analysis/replay/replay.js',
      'node:fs',
      'commander',
    ],
  ],
  ['lib/snapshot/trace.ts', ['./model.js', '../errors.js'], ['./files.js', 'node:fs', '../allocator/block.js']],
  ['lib/snapshot/files.ts', ['./trace.js', 'node:fs'], ['../allocator/block.js', '../cli/main.js', 'commander']],
  [
    'lib/snapshot/pickle/machine.ts',
    ['./cursor.js', '../model.js', '../layout/read-frames.js', '../../errors.js', '../../units.js'],
    ['../files.js', '../../allocator/block.js', '../../device/types.js', '../../index.js', 'node:zlib'],
  ],
  [
    'lib/analysis/verdict.ts',
    ['./report/report.js', '../allocator/block.js', '../snapshot/model.js', '../device/sim.js', '../device/types.js'],
    ['../snapshot/files.js', '../device/native.js', '../cli/main.js', '../viewer/colours.js', 'node:fs'],
  ],
  [
    'lib/analysis/replay/replay.ts',
    [
      './report.js',
      '../recording/start-state.js',
      '../../allocator/block.js',
      '../../pages/virtual-range.js',
      '../../snapshot/trace.js',
      '../../snapshot/pickle/machine.js',
      '../../device/sim.js',
      '../../device/types.js',
    ],
    [
      '../../snapshot/files.js',
      '../../snapshot/files',
      '../../device/native.js',
      '../../device/open.js',
      '../../device/sim-memory.js',
      '../../cli/main.js',
      '../../viewer/colours.js',
      '../../dump-snapshot.js',
      '../../index.js',
      '../../../binding.js',
      'node:fs',
      'fs',
      'commander',
    ],
  ],
  [
    'lib/kv/cache.ts',
    ['../allocator/block.js', '../pages/pages.js'],
    ['../tiering/disk.js', '../analysis/replay/replay.js'],
  ],
  ['lib/tiering/disk.ts', ['../allocator/block.js', 'node:fs'], ['../kv/cache.js', '../cli/main.js']],
  [
    'lib/viewer/colours.ts',
    ['./palette.js', './timeline/axis.js', '../analysis/report/report.js', '../snapshot/model.js', ...SETTINGS('..')],
    [
      './page/app.js',
      '../snapshot/files.js',
      '../allocator/block.js',
      '../device/open.js',
      '../device/sim.js',
      '../cli/main.js',
      '../index.js',
      'preact',
      'node:fs',
    ],
  ],
  [
    'lib/viewer/timeline/axis.ts',
    [
      './ticks.js',
      '../palette.js',
      '../segments/state.js',
      '../../analysis/report/report.js',
      '../../snapshot/model.js',
      'fast-png',
      ...SETTINGS('../..'),
    ],
    [
      '../page/app.js',
      '../../snapshot/files.js',
      '../../allocator/block.js',
      '../../device/native.js',
      '../../device/open.js',
      '../../cli/main.js',
      '../../index.js',
      'preact/hooks',
      'node:fs',
      'pngjs',
    ],
  ],
  [
    'lib/viewer/page/app.tsx',
    [
      './toolbar.js',
      './app.css',
      '../palette.js',
      '../timeline/axis.js',
      '../../analysis/report/report.js',
      '../../snapshot/read-snapshot.js',
      'preact',
      'preact/hooks',
      'd3-zoom',
      'uplot',
      'uplot/dist/uPlot.min.css',
      ...SETTINGS('../..'),
    ],
    [
      // Its imports need no ending.
      '../..',
      '../../index',
      '../../snapshot/files',
      '../../snapshot/files.js',
      '../../allocator/block.js',
      '../../device/native.js',
      '../../cli/main.js',
      'preact/compat',
      'd3-fetch',
      'node:fs',
      'https://cdn.example/library.js',
    ],
  ],
  ['lib/metrics/watch.ts', ['../allocator/block.js', 'node:http'], ['../cli/main.js', '../index.js']],
  ['lib/cli/main.ts', ['commander', '../device/open.js', 'node:fs'], ['../index.js']],
  ['lib/cli/commands/demo.ts', ['../../allocator/block.js', '../render/table.js'], ['../../index.js']],
  // Round-about spellings of a refused path.
  ['lib/pages/roundabout.ts', [], ['./../allocator/block.js', '../device/../allocator/block.js', '..', './..', '../.']],
  ...[
    'lib/snapshot/json/roundabout.ts',
    'lib/analysis/tune/roundabout.ts',
    'lib/viewer/segments/roundabout.ts',
    'lib/viewer/page/roundabout.ts',
  ].map((file) => [file, [], ROUNDABOUT] as const),
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
