// Every shared case that the repository holds no copy of, on the CPU mock, with real bytes in every block.

import { openDevice } from '../../lib/device/open.js';
import { isCopied } from '../support/golden-cases.js';
import { sharedGoldenSuite } from '../support/golden-suite.js';

sharedGoldenSuite('mock', (golden) => !isCopied(golden), {
  open: (capacity) => openDevice({ backend: 'mock', capacity }),
  checkData: true,
});
