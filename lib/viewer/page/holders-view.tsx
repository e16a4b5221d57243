// Who holds the memory at the moment: flame graph and table, alone or compared with another moment or file. Must not know how either is drawn.

import { useMemo } from 'preact/hooks';
import { formatSize } from '../../units.js';
import { deviceHistory } from '../device-history.js';
import { rowsPassing } from '../filter.js';
import { flameTree } from '../holders/flame.js';
import { siteRows, stackSums } from '../holders/holders.js';
import { FlameGraph } from './flame-graph.js';
import { HoldersTable } from './holders-table.js';
import { momentOf } from './keys.js';
import { Scrubber } from './scrubber.js';
import type { ViewState } from './store.js';
import { useScriptsOnly } from './use-scripts-only.js';
import type { ViewProps } from './view-props.js';

export function HoldersView(props: ViewProps) {
  const { history, state, update, files, passing } = props;
  const moment = momentOf(props);
  const sums = useMemo(() => stackSums(history, moment, passing), [history, moment, passing]);
  const compared = useCompared(props);
  const [scriptsOnly, toggle] = useScriptsOnly(history);
  const shown = { history, sums };
  const rows = useMemo(() => siteRows(shown, compared), [history, sums, compared]);
  const tree = useMemo(
    () =>
      flameTree(
        { stacks: history.snapshot.stacks, sums },
        compared === null ? null : { stacks: compared.history.snapshot.stacks, sums: compared.sums },
        scriptsOnly,
      ),
    [history, sums, compared, scriptsOnly],
  );
  return (
    <div class="holders">
      <Scrubber {...props} />
      <div class="controls">
        <label>
          Compare with{' '}
          <select
            id="compare"
            value={state.compare}
            onChange={(event) => {
              const compare = event.currentTarget.value as ViewState['compare'];
              update({ compare, ...(compare === 'moment' && state.other === null ? { other: -1 } : {}) });
            }}
          >
            <option value="">nothing</option>
            <option value="moment">another moment of this file</option>
            {files.map(({ name }, i) =>
              i === state.file ? null : (
                <option key={name} value={`file${i}`}>
                  {name}
                </option>
              ),
            )}
          </select>
        </label>
        {state.compare === 'moment' ? (
          <span>
            event{' '}
            <input
              id="compare-moment"
              type="number"
              min={-1}
              max={history.events - 1}
              value={state.other ?? -1}
              onChange={(event) =>
                update({
                  other: Math.max(-1, Math.min(history.events - 1, Math.round(Number(event.currentTarget.value)))),
                })
              }
            />{' '}
            <button type="button" onClick={() => update({ other: moment })}>
              This moment
            </button>
          </span>
        ) : null}
        {state.compare.startsWith('file') ? (
          <label>
            at its{' '}
            <select
              value={state.compareAt}
              onChange={(event) => update({ compareAt: event.currentTarget.value as ViewState['compareAt'] })}
            >
              <option value="end">end</option>
              <option value="peak">peak</option>
            </select>
          </label>
        ) : null}
        <label>
          <input type="checkbox" checked={scriptsOnly} onChange={toggle} /> without frames of machine code
        </label>
        <output
          id="holders-sum"
          data-bytes={sums.totalBytes}
          data-count={sums.totalCount}
          data-bytes-a={compared?.sums.totalBytes ?? 0}
        >
          {formatSize(sums.totalBytes)} in {sums.totalCount.toLocaleString('en')} blocks
          {compared === null ? '' : `, compared with ${formatSize(compared.sums.totalBytes)}`}
        </output>
      </div>
      <FlameGraph tree={tree} compares={compared !== null} palette={props.palette} />
      <HoldersTable {...props} rows={rows} shown={shown} compares={compared !== null} />
    </div>
  );
}

/** The other side of the comparison; null: there is none. */
function useCompared({ history, state, files, passing }: ViewProps) {
  const number = state.compare.startsWith('file') ? Number(state.compare.slice(4)) : null;
  const file = number === null || number === state.file ? undefined : files[number];
  const other = useMemo(
    () => (file === undefined ? null : deviceHistory(file.snapshot, history.device)),
    [file, history.device],
  );
  const otherPassing = useMemo(
    () => (other === null ? null : rowsPassing(other, state)),
    [other, state.search, state.stream, state.pool],
  );
  return useMemo(() => {
    if (state.compare === 'moment' && state.other !== null)
      return { history, sums: stackSums(history, Math.round(state.other), passing) };
    if (other === null) return null;
    const moment = state.compareAt === 'peak' ? other.peak : other.events - 1;
    return { history: other, sums: stackSums(other, moment, otherPassing) };
  }, [history, state.compare, state.other, state.compareAt, other, otherPassing, passing]);
}
