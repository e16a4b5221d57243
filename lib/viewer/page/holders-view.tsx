// Who holds the memory at the moment: flame graph and table, alone or compared with another moment or file. Must not know how either is drawn.

import { useMemo } from 'preact/hooks';
import { formatSize } from '../../units.js';
import { flameTree } from '../holders/flame.js';
import { FlameStacks } from '../holders/flame-stacks.js';
import { siteRows, stackSums } from '../holders/holders.js';
import { FlameGraph } from './flame-graph.js';
import { CompareControls, useCompared } from './holders-compare.js';
import { HoldersTable } from './holders-table.js';
import { momentOf } from './keys.js';
import { usePerFrame } from './per-frame.js';
import { Scrubber } from './scrubber.js';
import { useScriptsOnly } from './use-scripts-only.js';
import type { ViewProps } from './view-props.js';

export function HoldersView(props: ViewProps) {
  const { history, passing } = props;
  const moment = usePerFrame(momentOf(props), history);
  const sums = useMemo(() => stackSums(history, moment, passing), [history, moment, passing]);
  const compared = useCompared(props);
  const [scriptsOnly, toggle] = useScriptsOnly(history);
  const rows = useMemo(() => siteRows({ history, sums }, compared), [history, sums, compared]);
  const stacks = useMemo(() => new FlameStacks(scriptsOnly), [history, compared?.history, scriptsOnly]);
  const tree = useMemo(
    () =>
      flameTree(
        stacks,
        { stacks: history.snapshot.stacks, sums },
        compared === null ? null : { stacks: compared.history.snapshot.stacks, sums: compared.sums },
      ),
    [history, sums, compared, stacks],
  );
  return (
    <div class="holders" data-moment={moment}>
      <Scrubber {...props} />
      <div class="controls">
        <CompareControls {...props} compared={compared} />
        <label>
          <input type="checkbox" checked={scriptsOnly} onChange={toggle} /> without frames of machine code
        </label>
        <output
          id="holders-sum"
          data-bytes={sums.totalBytes}
          data-count={sums.totalCount}
          data-bytes-a={compared?.sums.totalBytes ?? 0}
          data-count-a={compared?.sums.totalCount ?? 0}
        >
          {formatSize(sums.totalBytes)} in {sums.totalCount.toLocaleString('en')} blocks
          {compared === null ? '' : `, compared with ${formatSize(compared.sums.totalBytes)}`}
        </output>
      </div>
      <FlameGraph tree={tree} compares={compared !== null} palette={props.palette} />
      <HoldersTable {...props} rows={rows} sums={sums} compared={compared?.sums ?? null} />
    </div>
  );
}
