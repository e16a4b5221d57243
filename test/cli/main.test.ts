import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOT } from '../support/child.js';
import { cli, MAIN, rule } from '../support/cli.js';

const COMMANDS = ['demo', 'analyze', 'replay', 'tune', 'conf', 'diff', 'convert', 'redact', 'doctor', 'build'];

describe('help', () => {
  it('of the program names every command', async () => {
    const { code, stdout, stderr } = await cli(['--help']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    for (const command of COMMANDS) expect(stdout).toMatch(new RegExp(`^  ${command}\\b`, 'm'));
  });

  it.each(COMMANDS)('of %s says what it does and has --json', async (command) => {
    const { code, stdout, stderr } = await cli([command, '--help']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(new RegExp(`^Usage: cudalloc ${command} `));
    expect(stdout).toContain('--json');
  });

  it('--version is that of the package', async () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
    expect(await cli(['--version'])).toMatchObject({ code: 0, stdout: `${version}\n`, stderr: '' });
  });
});

describe('bad usage is one line on stderr and status 2', () => {
  it.each([
    [['nonsense'], /unknown command 'nonsense'/],
    [['replai', 'x'], /unknown command 'replai' \(Did you mean replay\?\)/],
    [['replay'], /missing required argument 'trace or snapshot'/],
    [['replay', rule('best-fit'), 'more'], /too many arguments/],
    [['replay', rule('best-fit'), '--nonsense'], /unknown option '--nonsense'/],
    [['replay', rule('best-fit'), '--capacity', '12parsecs'], /unknown unit "parsecs"/],
    [['replay', rule('best-fit'), '--capacity', '0'], /0 bytes/],
    [['replay', rule('best-fit'), '--capacity', '-5'], /capacity/],
    [['replay', rule('best-fit'), '--policy', 'roomy'], /Allowed choices are pytorch, default, paged/],
    [['replay', rule('best-fit'), '--backend', 'gpu'], /Allowed choices are sim, mock, cuda/],
    [['replay', rule('best-fit'), '--from', '1.5'], /not a whole number/],
    [['replay', rule('best-fit'), '--to', '100000'], /--to: 100000 is beyond the \d+ operations there are/],
    [['replay', rule('best-fit'), '--from', '5', '--to', '2'], /--from: 5 is beyond operation 2/],
    [['replay', rule('best-fit'), '--conf', 'max_split_size_mb:3'], /max_split_size_mb/],
    [['replay', rule('best-fit'), '--conf', 'no_such_key:1'], /no_such_key/],
    [['replay', '/does/not/exist'], /ENOENT.*\/does\/not\/exist/],
    [['replay', ROOT], /EISDIR/],
    [['replay', join(ROOT, 'package.json')], /not a memory snapshot/],
    [['replay', MAIN], /line 2: .*no operation/],
    [['replay', rule('best-fit'), '-o', '/does/not/exist/report.json'], /ENOENT/],
    [['demo', '--capacity', '64MiB'], /64.00 MiB are too small for the demo/],
    [['demo', '--backend', 'sim'], /Allowed choices are auto, cuda, mock/],
  ])('%j', async (args, message) => {
    const { code, stdout, stderr } = await cli(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^cudalloc: [^\n]+\n$/);
    expect(stderr).toMatch(message);
  });

  it('with the stack where DEBUG is set', async () => {
    const { code, stderr } = await cli(['replay', '/does/not/exist'], { env: { DEBUG: '1' } });
    expect(code).toBe(2);
    expect(stderr).toMatch(/^cudalloc: ENOENT[^\n]*\n.*\n\s+at /s);
  });

  it('also without any command, with the help', async () => {
    const { code, stdout, stderr } = await cli([]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^Usage: cudalloc/);
  });
});

describe('the terminal', () => {
  const args = ['replay', rule('fragmentation-classic'), '--capacity', '10GiB'];

  it('gets colours only when it is one, or when they are forced', async () => {
    expect((await cli(args, { env: { CI: 'true' } })).stdout).not.toContain('\u001b[');
    expect((await cli(args, { env: { FORCE_COLOR: '1' } })).stdout).toContain('\u001b[31m');
    expect((await cli(args, { env: { FORCE_COLOR: '1', NO_COLOR: '1' } })).stdout).not.toContain('\u001b[');
  });

  it('may stop reading', async () => {
    const child = spawn(process.execPath, [MAIN, ...args, '--json'], { stdio: ['ignore', 'pipe', 'pipe'] });
    let stderr = '';
    child.stderr.on('data', (text) => {
      stderr += text;
    });
    child.stdout.destroy();
    const code = await new Promise((resolve) => child.on('close', resolve));
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });
});
