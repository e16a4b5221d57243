// `cudalloc doctor` and `cudalloc build`: what they say on machines with and without a GPU.

import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Ended, ROOT, runNode, temporaryFolder } from '../support/child.js';
import { buildStandIns, standInEnvironment } from '../support/stand-ins.js';

const MAIN = join(ROOT, 'dist', 'cli', 'main.js');
const NO_GPU = { CUDALLOC_LIBCUDA: 'libcuda-is-not-here.so.1' };
const FEATURES = [
  'cuda',
  'mock',
  'sim',
  'expandable_segments',
  'sharing',
  'cuda_malloc',
  'copies',
  'pinned_memory',
  'kernels',
];

interface Report {
  node: string;
  platform: string;
  addon: { works: boolean; path: string };
  driver: { library: string; version: number; reason: string };
  runtime: { library: string; version: number };
  devices: { total_memory: number }[];
  auto: string | null;
  features: Record<string, { works: boolean; reason: string; detail: string }>;
}

async function doctor(env: Record<string, string>): Promise<Report> {
  const { code, stdout, stderr } = await runNode([MAIN, 'doctor', '--json'], { env });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout) as Report;
}

beforeAll(() => buildStandIns(), 300_000);

describe('doctor', () => {
  test('without a GPU: the mock and the simulated device work, CUDA does not, with the reason', async () => {
    const report = await doctor(NO_GPU);
    expect(report).toMatchObject({
      node: process.version,
      platform: `${process.platform}-${process.arch}`,
      addon: { works: true, path: expect.stringMatching(/\.node$/) },
      driver: { library: '', version: 0, reason: expect.stringContaining('libcuda-is-not-here.so.1') },
      devices: [],
      auto: 'mock',
    });
    expect(Object.keys(report.features).sort()).toEqual([...FEATURES].sort());
    for (const [name, { works, reason }] of Object.entries(report.features)) {
      expect({ name, works, unexplained: !works && reason === '' }).toEqual({
        name,
        works: name !== 'cuda',
        unexplained: false,
      });
    }
    expect(report.features.expandable_segments?.detail).toMatch(
      /^18\.00 GiB of addresses reserved, on mock device \d+$/,
    );
  });

  test('without a GPU: the text says what is there, what is missing and what works', async () => {
    const { code, stdout, stderr } = await runNode([MAIN, 'doctor'], { env: { ...NO_GPU, NO_COLOR: '1' } });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    for (const name of FEATURES) expect(stdout).toContain(name.replaceAll('_', ' '));
    expect(stdout).toContain(process.version);
    expect(stdout).toContain('libcuda-is-not-here.so.1');
    expect(stdout).toContain('CPU mock');
    expect(stdout).not.toContain('\u001b');
  });

  test('with a driver and two devices', async () => {
    const report = await doctor(standInEnvironment({ devices: 2, capacity: 8 * 1024 ** 3 }));
    expect(report).toMatchObject({ auto: 'cuda', driver: { version: 12040, reason: '' }, runtime: { version: 12040 } });
    expect(report.devices.map((device) => device.total_memory)).toEqual([8 * 1024 ** 3, 8 * 1024 ** 3]);
    for (const name of FEATURES) expect({ name, ...report.features[name] }).toMatchObject({ name, works: true });
    expect(report.features.expandable_segments?.detail).toBe('9.00 GiB of addresses reserved, on cuda device 0');
  });

  test('a driver that refuses large reservations: says what it gave instead', async () => {
    const report = await doctor(standInEnvironment({ capacity: 8 * 1024 ** 3, largestReservation: 3 * 1024 ** 3 }));
    expect(report.features.expandable_segments).toMatchObject({
      works: true,
      detail: expect.stringMatching(
        /^2\.25 GiB of addresses reserved; 9\.00 GiB were refused \(CUDA_ERROR_\w+\), on cuda device 0$/,
      ),
    });
  });

  test('a driver that refuses every reservation, and one without virtual memory', async () => {
    const refusing = await doctor(standInEnvironment({ fail: 'cuMemAddressReserve:0:CUDA_ERROR_OUT_OF_MEMORY' }));
    expect(refusing.features.expandable_segments).toMatchObject({
      works: false,
      reason: expect.stringContaining('cuMemAddressReserve'),
    });
    const old = await doctor(standInEnvironment({ driver: 'before_10_2' }));
    expect(old.features.expandable_segments).toMatchObject({ works: false, reason: expect.stringMatching(/\w/) });
    expect(old.features.cuda).toMatchObject({ works: true });
  });

  test('without a runtime library: segments come from cuMemAlloc', async () => {
    const report = await doctor(standInEnvironment({ runtime: null }));
    expect(report.features.cuda_malloc).toMatchObject({ works: false, reason: expect.stringMatching(/\w/) });
    expect(report.features.cuda).toMatchObject({ works: true });
  });

  test('a card that is full or lost is a reason, not a crash', async () => {
    const full = await doctor(standInEnvironment({ capacity: 1024 * 1024 }));
    expect(full.features.cuda).toMatchObject({
      works: false,
      reason: expect.stringContaining('cudaErrorMemoryAllocation'),
    });
    const lost = await doctor(standInEnvironment({ fail: 'cuMemGetInfo:0:CUDA_ERROR_ECC_UNCORRECTABLE' }));
    expect(lost.features.cuda).toMatchObject({
      works: false,
      reason: expect.stringContaining('CUDA_ERROR_ECC_UNCORRECTABLE'),
    });
  });
});

describe('build', () => {
  /** The compiled package in a folder of its own, and a search path that finds these tools only. */
  function bareMachine(tools: Readonly<Record<string, string>>): { main: string; path: string } {
    const root = temporaryFolder();
    cpSync(join(ROOT, 'dist'), join(root, 'dist'), { recursive: true });
    cpSync(join(ROOT, 'package.json'), join(root, 'package.json'));
    symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'));
    const path = join(root, 'bin');
    mkdirSync(path);
    for (const [name, script] of Object.entries(tools))
      writeFileSync(join(path, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    return { main: join(root, 'dist', 'cli', 'main.js'), path };
  }

  function build({ main, path }: { main: string; path: string }, ...args: string[]): Promise<Ended> {
    return runNode([main, 'build', ...args], { env: { PATH: path, CXX: undefined } });
  }

  test('without CMake or a compiler it names what is missing and ends with 1', async () => {
    const nothing = await build(bareMachine({}));
    expect(nothing).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^cudalloc build: CMake .* and a C\+\+17 compiler .* cannot be found/),
    });
    const noCompiler = await build(bareMachine({ cmake: 'exit 0' }));
    expect(noCompiler.stderr).toMatch(/^cudalloc build: a C\+\+17 compiler/);
  });

  test("what the tools print goes to stderr, their failure is the command's", async () => {
    const tools = { cmake: 'exit 0', 'c++': 'exit 0', npx: 'echo "npx got $*"; exit 7' };
    const { code, stdout, stderr } = await build(bareMachine(tools), '--json');
    expect(code).toBe(1);
    expect(stderr).toMatch(/npx got --yes cmake-js@[\d.]+ compile/);
    expect(JSON.parse(stdout)).toMatchObject({ built: false, reason: expect.stringContaining('status 7') });
  });

  test('a build that leaves no addon is a failure', async () => {
    const ended = await build(bareMachine({ cmake: 'exit 0', 'c++': 'exit 0', npx: 'exit 0' }));
    expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining('addon') });
  });
});
