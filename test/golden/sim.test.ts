// The golden cases of the repository, on the simulated device.

import { join } from 'node:path';
import { expect, it } from 'vitest';
import { SimDevice } from '../../lib/device/sim.js';
import { goldenCases } from '../support/golden-cases.js';
import { goldenSuite } from '../support/golden-suite.js';
import { REPOSITORY } from '../support/shared-data.js';

const cases = goldenCases(join(REPOSITORY, 'test/golden/data'));

it('has all rules, fuzz cases and short workloads', () => {
  const count = (folder: string) => cases.filter(({ name }) => name.startsWith(folder)).length;
  expect([count('rules/'), count('fuzz/'), count('workloads/')]).toEqual([108, 60, 28]);
});

goldenSuite('simulated device', { cases, open: (capacity) => new SimDevice({ capacity }), checkData: false });
