// The golden cases of the repository on the CPU mock, with real bytes in every block: the same decisions, nothing overwritten.

import { join } from 'node:path';
import { openDevice } from '../../lib/device/open.js';
import { goldenCases } from '../support/golden-cases.js';
import { goldenSuite } from '../support/golden-suite.js';
import { REPOSITORY } from '../support/shared-data.js';

goldenSuite('mock', {
  cases: goldenCases(join(REPOSITORY, 'test/golden/data')),
  open: (capacity) => openDevice({ backend: 'mock', capacity }),
  checkData: true,
});
