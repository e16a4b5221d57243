// The golden cases of the repository through the real loader, over stand-in driver libraries, with real bytes in every block.
// Cases that hold events back are left to the mock: a real device decides itself when events complete.

import { join } from 'node:path';
import { expect, it } from 'vitest';
import { replay } from '../../lib/analysis/replay/replay.js';
import { UnsupportedError } from '../../lib/errors.js';
import { fitsDevice, openStandIn, useStandInDriver } from '../support/cuda-stand-in.js';
import { thrownBy } from '../support/devices.js';
import { goldenCases, holdsEvents, readCaseTrace } from '../support/golden-cases.js';
import { goldenSuite } from '../support/golden-suite.js';
import { REPOSITORY } from '../support/shared-data.js';

useStandInDriver();

const all = goldenCases(join(REPOSITORY, 'test/golden/data'));
const held = all.filter((golden) => holdsEvents(readCaseTrace(golden)));

it('refuses the cases that hold events, and no others', () => {
  expect(held.length).toBeGreaterThan(20);
  expect(all.length - held.length).toBeGreaterThan(100);
  const device = openStandIn(2 ** 30);
  for (const golden of held) {
    expect(thrownBy(() => replay(readCaseTrace(golden), { device }))).toBeInstanceOf(UnsupportedError);
  }
  expect(device.memGetInfo().free).toBe(2 ** 30);
  device.close();
});

goldenSuite('cuda over the stand-in driver', {
  cases: all.filter((golden) => !held.includes(golden) && fitsDevice(golden.meta.capacity)),
  open: openStandIn,
  checkData: true,
});
