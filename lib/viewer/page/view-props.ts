// What every view of the page is given.

import type { Report } from '../../analysis/report/format.js';
import type { DeviceHistory } from '../device-history.js';
import type { Palette } from '../palette.js';
import type { Analyst } from './analyst.js';
import type { OpenFile } from './open-file.js';
import type { Update, ViewState } from './store.js';

export interface ViewProps {
  readonly history: DeviceHistory;
  readonly state: ViewState;
  readonly update: Update;
  readonly palette: Palette;
  /** Every open file; `state.file` is the one that is shown. */
  readonly files: readonly OpenFile[];
  /** 1 for each row of the blocks that the search, stream and pool let pass; null: all. */
  readonly passing: Uint8Array | null;
  /** Null while it is being made; an error says why it could not be. */
  readonly report: Report | Error | null;
  /** Bytes; null where neither the file nor the report says. */
  readonly capacity: number | null;
  readonly analyst: Analyst;
}
