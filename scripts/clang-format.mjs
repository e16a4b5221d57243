// Formats the C++ sources, or with no argument checks that they are formatted (exit 1 if not). `--write` changes the
// files. Uses the clang-format of devDependencies, never the machine's: versions format differently.

import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const sources = readdirSync(join(root, 'native'), { recursive: true, encoding: 'utf8' })
  .filter((name) => ['.cc', '.h', '.cu'].includes(extname(name)))
  .map((name) => join('native', name))
  .sort();
if (sources.length === 0) throw new Error('no C++ source found in native/');

const cli = join(dirname(createRequire(import.meta.url).resolve('clang-format-node/package.json')), 'build', 'cli.js');
const mode = process.argv[2] === '--write' ? ['-i'] : ['--dry-run', '--Werror'];
const result = spawnSync(process.execPath, [cli, '--style=file', ...mode, ...sources], { cwd: root, stdio: 'inherit' });
if (result.error) throw result.error;
if (result.status === 0) console.log(`clang-format: ${sources.length} files`);
process.exitCode = result.status ?? 1;
