// What the holders are compared with: nothing, another moment, or another file. Must not know how a comparison is shown.

import { useMemo } from 'preact/hooks';
import { devicesOf } from '../../analysis/report/gap.js';
import { type DeviceHistory, deviceHistory } from '../device-history.js';
import { rowsPassing } from '../filter.js';
import { type StackSums, stackSums } from '../holders/holders.js';
import { momentOf } from './keys.js';
import type { ViewState } from './store.js';
import type { ViewProps } from './view-props.js';

export interface Compared {
  readonly history: DeviceHistory;
  readonly moment: number;
  readonly sums: StackSums;
}

/** The other side; null: there is none. */
export function useCompared(props: ViewProps): Compared | null {
  const { history, state, files, passing } = props;
  const file = files[otherFile(props) ?? -1];
  const other = useMemo(() => {
    if (file === undefined) return null;
    const devices = devicesOf(file.snapshot);
    return deviceHistory(file.snapshot, devices.includes(history.device) ? history.device : (devices[0] ?? 0));
  }, [file, history.device]);
  const otherPassing = useMemo(
    () => (other === null ? null : rowsPassing(other, state)),
    [other, state.search, state.stream, state.pool],
  );
  return useMemo(() => {
    if (state.compare === 'moment') {
      const moment = otherMoment(props);
      return { history, moment, sums: stackSums(history, moment, passing) };
    }
    if (other === null) return null;
    const moment = state.compareAt === 'peak' ? other.peak : other.events - 1;
    return { history: other, moment, sums: stackSums(other, moment, otherPassing) };
  }, [history, state.compare, state.other, state.compareAt, other, otherPassing, passing]);
}

/** Position of the file that is compared with; null: none is. */
function otherFile({ state, files }: ViewProps): number | null {
  const number = state.compare.startsWith('file') ? Number(state.compare.slice(4)) : null;
  return number === null || number === state.file || files[number] === undefined ? null : number;
}

/** Without a second moment: before the first event. */
function otherMoment({ history, state }: ViewProps): number {
  return state.other === null ? -1 : Math.max(-1, Math.min(history.events - 1, Math.round(state.other)));
}

export function CompareControls(props: ViewProps & { readonly compared: Compared | null }) {
  const { history, state, update, files, compared } = props;
  const file = otherFile(props);
  return (
    <>
      <label>
        Compare with{' '}
        <select
          id="compare"
          value={file !== null || state.compare === 'moment' ? state.compare : ''}
          onChange={(event) => update({ compare: event.currentTarget.value as ViewState['compare'] })}
        >
          <option value="">nothing</option>
          <option value="moment">another moment of this file</option>
          {files.map(({ name }, i) =>
            i === state.file ? null : (
              <option key={i} value={`file${i}`}>
                {name}
              </option>
            ),
          )}
        </select>
      </label>
      {state.compare === 'moment' ? (
        <label>
          event{' '}
          <input
            id="compare-moment"
            type="number"
            min={-1}
            max={history.events - 1}
            value={otherMoment(props)}
            onChange={(event) => update({ other: Math.round(Number(event.currentTarget.value)) })}
          />
        </label>
      ) : null}
      {file === null ? (
        <button
          type="button"
          id="compare-here"
          title="Then move on: what this moment held is what later ones are compared with"
          onClick={() => update({ compare: 'moment', other: momentOf(props) })}
        >
          Compare with this moment
        </button>
      ) : (
        <label>
          at its{' '}
          <select
            id="compare-at"
            value={state.compareAt}
            onChange={(event) => update({ compareAt: event.currentTarget.value as ViewState['compareAt'] })}
          >
            <option value="end">end</option>
            <option value="peak">peak</option>
          </select>
        </label>
      )}
      {file === null || compared === null ? null : <OtherFileNotes {...props} compared={compared} />}
    </>
  );
}

/** What may surprise in the comparison of two files. */
function OtherFileNotes({ history, state, compared }: ViewProps & { readonly compared: Compared }) {
  const notes = [
    ...(compared.history.device === history.device
      ? []
      : [`It has no device ${history.device}: its device ${compared.history.device} is shown.`]),
    ...(state.stream === null && state.pool === null
      ? []
      : ['Of both files only the chosen stream and pool are counted; their numbers may differ from file to file.']),
  ];
  return notes.length === 0 ? null : <span class="faint">{notes.join(' ')}</span>;
}
