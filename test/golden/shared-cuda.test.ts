// Every shared case that the repository holds no copy of and that holds no events back, through the real loader, over stand-in
// driver libraries, with real bytes in every block.

import { fitsDevice, openStandIn, useStandInDriver } from '../support/cuda-stand-in.js';
import { holdsEvents, isCopied, readCaseTrace } from '../support/golden-cases.js';
import { sharedGoldenSuite } from '../support/golden-suite.js';

useStandInDriver();

sharedGoldenSuite(
  'cuda over the stand-in driver',
  (golden) => !isCopied(golden) && !holdsEvents(readCaseTrace(golden)) && fitsDevice(golden.meta.capacity),
  {
    open: openStandIn,
    checkData: true,
  },
);
