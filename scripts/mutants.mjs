// Puts deliberate faults (mutants/faults.mjs) into copies of the sources, one at a time, and shows that a test catches each:
// `node scripts/mutants.mjs [part of a fault's text]`. Exit status 1 when one survives. Changes nothing in the repository.

import { spawn } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import Table from 'cli-table3';
import { FAULTS } from './mutants/faults.mjs';

/** @typedef {import('./mutants/faults.mjs').Fault} Fault */
/** @typedef {{ fault: Fault, caughtBy: string | null, seconds: number }} Outcome */

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const WORKERS = 2;
/** Quick ones, from the most to the least particular. */
const TESTS = [
  'allocator/rounding',
  'allocator/address-table',
  'allocator/free-list',
  'allocator/decisions',
  'allocator/retry-ladder',
  'allocator/expandable-segments',
  'allocator/paged-ladder',
  'allocator/stats',
  'allocator/deferred-frees',
  'pages/virtual-range',
  'pages/physical-pages',
  'analysis/recording/start-state',
  'analysis/recording/snapshot-trace',
  'analysis/recording/lifetimes',
  'analysis/report/gap',
  'analysis/report/live-blocks',
  'analysis/report/report',
  'analysis/report/snapshot-verdict',
  'analysis/replay/snapshot-replay',
  'viewer/filter',
  'viewer/timeline/axis',
  'viewer/timeline/raster',
  'allocator/fault-injection',
  'allocator/compaction',
  'allocator/property',
];
const COPIED = [
  'lib',
  'test/allocator',
  'test/analysis',
  'test/pages',
  'test/support',
  'test/viewer',
  'package.json',
  'tsconfig.json',
  'vitest.config.ts',
  'binding.d.ts',
];
const LINKED = ['node_modules', 'build', 'native'];

/**
 * A copy of what the tests need.
 * @param {string} from
 */
function copyOf(from) {
  const folder = mkdtempSync(join(tmpdir(), 'cudalloc-mutants-'));
  for (const name of COPIED) cpSync(join(from, name), join(folder, name), { recursive: true });
  for (const name of LINKED) symlinkSync(join(ROOT, name), join(folder, name));
  return folder;
}

/**
 * The source without the fault and with it. Throws unless the text to replace is there exactly once.
 * @param {Fault} fault
 * @param {string} folder
 */
function sourcesOf({ fault, file, find, replace }, folder) {
  const sound = readFileSync(join(folder, 'lib', file), 'utf8');
  const times = sound.split(find).length - 1;
  if (times !== 1) {
    throw new Error(`"${fault}": its text is in lib/${file} ${times} times, not once: ${JSON.stringify(find)}`);
  }
  return { sound, faulty: sound.replace(find, () => replace) };
}

/**
 * Runs the tests that are nearest to a file, then the others, up to the first failure.
 * @param {string} folder
 * @param {string} file below lib
 * @returns {Promise<string | null>} the test that failed; null when all passed
 */
async function caughtIn(folder, file) {
  const [near] = file.split('/');
  const isNear = (/** @type {string} */ name) => name.startsWith(`${near}/`);
  const [first, rest] = [TESTS.filter(isNear), TESTS.filter((name) => !isNear(name))];
  return (await firstFailure(folder, first)) ?? (await firstFailure(folder, rest));
}

/**
 * Runs tests in a copy, up to the first failure.
 * @param {string} folder
 * @param {readonly string[]} tests
 * @returns {Promise<string | null>} the test that failed; null when all passed
 */
async function firstFailure(folder, tests) {
  const report = join(folder, 'report.json');
  rmSync(report, { force: true });
  const files = tests.map((name) => `test/${name}.test.ts`);
  // A file that is not there would be passed over in silence, and with it what it tests.
  const missing = files.filter((file) => !existsSync(join(folder, file)));
  if (missing.length > 0) throw new Error(`there is no ${missing.join(', ')}`);
  const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs');
  const args = [
    vitest,
    'run',
    '--project',
    'unit',
    '--bail',
    '1',
    '--maxWorkers',
    '1',
    '--reporter',
    'json',
    '--outputFile',
    report,
  ];
  // A copy has no shared data beside it; what needs them is skipped.
  const env = { ...process.env, CUDALLOC_RUNS: '0.15', CUDALLOC_REQUIRE_SHARED: '0' };
  const child = spawn(process.execPath, [...args, ...files], { cwd: folder, env, stdio: ['ignore', 'ignore', 'pipe'] });
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    errors += text;
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), 120_000);
  const code = await new Promise((resolve, reject) => child.on('error', reject).on('close', resolve));
  clearTimeout(timer);
  if (code === 0) return null;
  // A fault may also make the tests run for ever, which is noticed as well.
  if (code === null) return 'the time limit';
  return failureIn(report, folder) ?? errors.trim().split('\n')[0] ?? `exit status ${code}`;
}

/**
 * @param {string} report
 * @param {string} folder
 */
function failureIn(report, folder) {
  const { testResults } = JSON.parse(readFileSync(report, 'utf8'));
  for (const { name, status, message, assertionResults } of testResults) {
    const file = relative(join(folder, 'test'), name).replace('.test.ts', '');
    const failed = assertionResults.find((/** @type {{ status: string }} */ result) => result.status === 'failed');
    if (failed !== undefined) return `${file}: ${failed.fullName}`;
    // A fault must be one of behaviour: a text that does not compile is caught by nothing that is tested.
    if (message.startsWith('Transform failed')) throw new Error(`${file}: ${message}`);
    if (status === 'failed' && message !== '') return `${file}: ${message.split('\n')[0]}`;
  }
  return null;
}

/**
 * @param {readonly Fault[]} faults
 * @param {readonly string[]} folders a copy for each worker
 * @returns {Promise<Outcome[]>} in the order of the faults
 */
async function tryAll(faults, folders) {
  /** @type {Outcome[]} */
  const outcomes = [];
  let next = 0;
  const work = folders.map(async (folder) => {
    while (next < faults.length) {
      const at = next++;
      const fault = /** @type {Fault} */ (faults[at]);
      const { sound, faulty } = sourcesOf(fault, folder);
      const started = performance.now();
      writeFileSync(join(folder, 'lib', fault.file), faulty);
      const caughtBy = await caughtIn(folder, fault.file);
      writeFileSync(join(folder, 'lib', fault.file), sound);
      outcomes[at] = { fault, caughtBy, seconds: (performance.now() - started) / 1000 };
      console.error(`${caughtBy === null ? 'SURVIVED' : 'caught'}: ${fault.fault}`);
    }
  });
  await Promise.all(work);
  return outcomes;
}

/** @param {readonly Outcome[]} outcomes */
function print(outcomes) {
  const colWidths = [50, 70, 6];
  const table = new Table({
    head: ['fault', 'caught by', 's'],
    colWidths,
    wordWrap: true,
    style: { head: [], border: [] },
  });
  for (const { fault, caughtBy, seconds } of outcomes) {
    table.push([fault.fault, caughtBy ?? 'SURVIVED', seconds.toFixed(0)]);
  }
  console.log(table.toString());
}

async function main() {
  const wanted = process.argv[2] ?? '';
  const faults = FAULTS.filter(({ fault }) => fault.includes(wanted));
  if (faults.length === 0) throw new Error(`no fault has ${JSON.stringify(wanted)} in its text`);
  const first = copyOf(ROOT);
  const folders = [first, ...Array.from({ length: WORKERS - 1 }, () => copyOf(first))];
  try {
    for (const fault of faults) sourcesOf(fault, first);
    const failure = await firstFailure(first, TESTS);
    if (failure !== null) throw new Error(`the tests fail without any fault: ${failure}`);
    const outcomes = await tryAll(faults, folders);
    print(outcomes);
    const survived = outcomes.filter(({ caughtBy }) => caughtBy === null).length;
    console.log(`${outcomes.length} faults, ${outcomes.length - survived} caught, ${survived} survived`);
    if (survived > 0) process.exitCode = 1;
  } finally {
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  }
}

await main();
