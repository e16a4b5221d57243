// Every case of the shared golden data and of the shared traces of real programs, on the simulated device.

import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { SimDevice } from '../../lib/device/sim.js';
import { sharedGoldenSuite } from '../support/golden-suite.js';
import { REPOSITORY, sharedData } from '../support/shared-data.js';

const shared = sharedData('golden/pytorch');

it.skipIf(shared === null)('the copies in the repository are those of the shared folder', () => {
  const copies = join(REPOSITORY, 'test/golden/data');
  const files = readdirSync(copies, { recursive: true, encoding: 'utf8' }).filter((path) =>
    statSync(join(copies, path)).isFile(),
  );
  const different = files.filter(
    (path) => !readFileSync(join(copies, path)).equals(readFileSync(join(shared ?? '', path))),
  );
  expect(files.length).toBeGreaterThan(500);
  expect(different).toEqual([]);
});

sharedGoldenSuite('simulated device', () => true, {
  open: (capacity) => new SimDevice({ capacity }),
  checkData: false,
});
