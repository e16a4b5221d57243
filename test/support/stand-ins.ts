// The mock built as driver libraries with the real names (native/test/standin), for tests that open `cuda` devices without a GPU:
// builds them when they are not up to date and says in which environment a process finds them.

import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './child.js';

const FOLDER = join(ROOT, 'build', 'stand-ins');

export interface StandInOptions {
  /** A folder of native/test/standin/CMakeLists.txt. Default: a current driver. */
  readonly driver?: string;
  /** Null: no runtime library. */
  readonly runtime?: string | null;
  readonly devices?: number;
  readonly capacity?: number;
  readonly virtualMemory?: boolean;
  readonly sharing?: boolean;
  readonly largestReservation?: number;
  /** `function:n:error`, joined by commas; n 0: every call. */
  readonly fail?: string;
}

/** Cost: seconds the first time. Several test files may ask at once. */
export function buildStandIns(): void {
  mkdirSync(FOLDER, { recursive: true });
  const build =
    'cmake -S "$1" -B "$2" -DCUDALLOC_TESTS=ON -DCUDALLOC_STANDINS_ONLY=ON -DCMAKE_BUILD_TYPE=Release && cmake --build "$2" -j2';
  const result = spawnSync('flock', [join(FOLDER, '.lock'), 'sh', '-c', build, 'sh', ROOT, FOLDER], {
    encoding: 'utf8',
  });
  if (result.status !== 0)
    throw new Error(`the stand-in libraries cannot be built:\n${result.stdout}\n${result.stderr}`);
}

/** Environment of a process that loads the stand-ins as its CUDA driver and runtime. */
export function standInEnvironment(options: StandInOptions = {}): Record<string, string> {
  const {
    driver = 'current',
    runtime = 'runtime',
    devices,
    capacity,
    virtualMemory,
    sharing,
    largestReservation,
    fail,
  } = options;
  const library = (folder: string, name: string) => join(FOLDER, 'native', 'test', 'standin', folder, name);
  const runtimeName = `libcudart.so.${runtime === 'runtime_13' ? 13 : 12}`;
  const values = {
    CUDALLOC_LIBCUDA: library(driver, 'libcuda.so.1'),
    CUDALLOC_LIBCUDART: runtime === null ? '' : library(runtime, runtimeName),
    // The runtime's library names libcuda.so.1 as what it needs.
    LD_LIBRARY_PATH: library(driver, ''),
    CUDALLOC_STANDIN_DEVICES: devices,
    CUDALLOC_STANDIN_CAPACITY: capacity,
    CUDALLOC_STANDIN_VIRTUAL_MEMORY: virtualMemory === undefined ? undefined : Number(virtualMemory),
    CUDALLOC_STANDIN_SHARING: sharing === undefined ? undefined : Number(sharing),
    CUDALLOC_STANDIN_LARGEST_RESERVATION: largestReservation,
    CUDALLOC_STANDIN_FAIL: fail,
  };
  return Object.fromEntries(
    Object.entries(values).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
  );
}
