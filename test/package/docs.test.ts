// The documents keep step with the code: every error code and every setting has its place, and no link leads nowhere.
// Knows the documents' form, not their content.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { optionNames } from '../../lib/allocator/config-parser.js';
import { makePolicy } from '../../lib/allocator/policy.js';

const root = join(import.meta.dirname, '..', '..');
const read = (name: string): string => readFileSync(join(root, name), 'utf8');
const matches = (text: string, pattern: RegExp): string[] => [...text.matchAll(pattern)].map((match) => match[1]!);

test('docs/errors.md has one section for each error code, and a row for the class that carries it', () => {
  const source = read('lib/errors.ts');
  const union = /ERR_CUDALLOC_\$\{([^}]*)\}/.exec(source)?.[1] ?? '';
  const codes = matches(union, /'([A-Z_]+)'/g).map((name) => `ERR_CUDALLOC_${name}`);
  expect(codes.length).toBeGreaterThan(10);
  const page = read('docs/errors.md');
  expect(matches(page, /^## (ERR_\w+)$/gm).sort()).toEqual([...codes].sort());
  expect(matches(page, /^\| `[^|]*\| `(ERR_\w+)` \|$/gm).sort()).toEqual([...codes].sort());
});

test('docs/settings.md has one row for each setting, and tells which of them PyTorch 2.4 has', () => {
  const rows = [...read('docs/settings.md').matchAll(/^\| `(\w+)` \| [^|]+ \| (2\.4|later[^|]*) \|/gm)];
  expect(rows.map(([, key]) => key).sort()).toEqual(optionNames('current').sort());
  expect(
    rows
      .filter(([, , since]) => since === '2.4')
      .map(([, key]) => key)
      .sort(),
  ).toEqual(optionNames('2.4').sort());
});

test('docs/settings.md has one row for each switch of a policy', () => {
  const { name: _, paged: __, ...mends } = makePolicy('default');
  const rows = matches(read('docs/settings.md'), /^\| `([a-z]\w*[A-Z]\w*)` \|/gm);
  expect(rows.sort()).toEqual(Object.keys(mends).sort());
});

test('docs/viewer.md has one row for each key of the page', () => {
  const keys = matches(read('lib/viewer/page/keys.ts'), /^\s*(?:\{ )?shown: '([^']+)'/gm);
  expect(keys.length).toBeGreaterThan(10);
  expect(matches(read('docs/viewer.md'), /^\| `([^`]+)` \| /gm)).toEqual(keys);
});

const pages = [
  'README.md',
  'CHANGELOG.md',
  ...readdirSync(join(root, 'docs')).map((name) => join('docs', name)),
].filter((name) => name.endsWith('.md'));

test.each(pages)('links of %s lead somewhere', (page) => {
  const links = matches(read(page), /\]\(([^)\s]+)\)/g).filter((link) => !/^(https?:|#)/.test(link));
  const broken = links.filter((link) => !existsSync(join(root, dirname(page), link.replace(/#.*$/, ''))));
  expect(broken).toEqual([]);
});
