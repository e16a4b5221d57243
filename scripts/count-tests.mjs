// Adds up what test runners reported: `node scripts/count-tests.mjs [--may-skip=NAME,...] FILE...` prints "PASSED FAILED",
// where a FILE is a vitest JSON report (.json) or the output of ctest (anything else). A skipped test, a file that could
// not run and a report that is missing, unreadable or empty each count as failed: what did not run is not known to work.
// Only the named ctest tests may be skipped (they need a GPU, say); they count as neither.

import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

/** @typedef {{ passed: number, failed: number, notes: string[] }} Count */

/**
 * @param {string} text
 * @returns {Count}
 */
export function countVitest(text) {
  const report = JSON.parse(text);
  const notes = [];
  let passed = 0;
  let failed = 0;
  for (const file of report.testResults) {
    const before = failed;
    for (const { status, fullName } of file.assertionResults) {
      if (status === 'passed') passed += 1;
      else {
        failed += 1;
        notes.push(`${status}: ${file.name}: ${fullName}`);
      }
    }
    if (file.status !== 'passed' && failed === before) {
      failed += 1;
      notes.push(`did not run: ${file.name}: ${file.message ?? ''}`);
    }
  }
  if (!report.success && failed === 0) {
    failed += 1;
    notes.push('the run as a whole failed, though every test passed');
  }
  return { passed, failed, notes };
}

/**
 * @param {string} text
 * @param {readonly string[]} maySkip
 * @returns {Count}
 */
export function countCtest(text, maySkip) {
  const notes = [];
  let passed = 0;
  let failed = 0;
  for (const [, bad, all] of text.matchAll(/^\d+% tests passed, (\d+) tests? failed out of (\d+)/gm)) {
    passed += Number(all) - Number(bad);
    failed += Number(bad);
  }
  // ctest counts a skipped test among the passed ones, and a disabled one not at all.
  for (const [line, name] of text.matchAll(/^.*Test +#\d+: (\S+) .*\*\*\*Skipped.*$/gm)) {
    const allowed = maySkip.includes(name ?? '');
    passed -= 1;
    if (!allowed) failed += 1;
    notes.push(`${allowed ? 'not run here' : 'skipped'}: ${line.trim()}`);
  }
  for (const [line] of text.matchAll(/^.*Test +#\d+: .*\*\*\*Not Run \(Disabled\).*$/gm)) {
    failed += 1;
    notes.push(`disabled: ${line.trim()}`);
  }
  for (const [line] of text.matchAll(
    /^.*Test +#\d+: .*\*\*\*(?:Failed|Timeout|Not Run +\d|Exception|SEGFAULT|OTHER_FAULT).*$/gm,
  )) {
    notes.push(`failed: ${line.trim()}`);
  }
  return { passed, failed, notes };
}

/**
 * @param {string} file
 * @param {readonly string[]} maySkip
 * @returns {Count}
 */
export function countFile(file, maySkip) {
  try {
    const text = readFileSync(file, 'utf8');
    const count = file.endsWith('.json') ? countVitest(text) : countCtest(text, maySkip);
    if (count.passed + count.failed > 0) return count;
    return { passed: 0, failed: 1, notes: [`no test ran: ${file}`] };
  } catch (error) {
    return { passed: 0, failed: 1, notes: [`no report: ${file}: ${error instanceof Error ? error.message : error}`] };
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const args = process.argv.slice(2);
  const option = '--may-skip=';
  const maySkip = args.filter((arg) => arg.startsWith(option)).flatMap((arg) => arg.slice(option.length).split(','));
  const counts = args.filter((arg) => !arg.startsWith(option)).map((file) => countFile(file, maySkip));
  for (const note of counts.flatMap(({ notes }) => notes)) console.error(note);
  const sum = (/** @type {'passed' | 'failed'} */ key) => counts.reduce((total, count) => total + count[key], 0);
  console.log(`${sum('passed')} ${sum('failed')}`);
}
