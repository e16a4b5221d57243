// Above the views: which file, device, stream and pool, the search with its sums, and the moment that all views show. Must not know the views.

import { useMemo } from 'preact/hooks';
import { formatSize } from '../../units.js';
import { allocatedAfter, poolName, type Sum } from '../filter.js';
import { KEYS, momentOf } from './keys.js';
import type { ViewProps } from './view-props.js';

interface Props extends ViewProps {
  readonly devices: readonly number[];
  readonly open: (files: readonly File[]) => Promise<void>;
}

export function Toolbar(props: Props) {
  const { history, state, update, files, devices, open } = props;
  const { ranges } = history.lifetimes;
  const streams = useMemo(
    () => [...new Set<number>(history.lifetimes.blocks.streams)].sort((a, b) => a - b),
    [history],
  );
  const pools = useMemo(() => [...new Set<string>(ranges.pools.map(poolName))], [history]);
  return (
    <header>
      <strong>cudalloc</strong>
      <Choice
        label="File"
        value={String(state.file)}
        options={files.map(({ name }, i) => [String(i), name])}
        choose={(value) =>
          update({
            file: Number(value),
            cursor: null,
            other: null,
            pinned: null,
            from: null,
            to: null,
            top: null,
            bottom: null,
          })
        }
      />
      {devices.length > 1 ? (
        <Choice
          label="Device"
          value={String(state.device)}
          options={devices.map((device) => [String(device), String(device)])}
          choose={(value) =>
            update({ device: Number(value), cursor: null, other: null, pinned: null, from: null, to: null })
          }
        />
      ) : null}
      <Choice
        label="Stream"
        value={state.stream === null ? '' : String(state.stream)}
        options={[
          ['', 'all'],
          ...streams.map((stream) => [String(stream), stream === 0 ? 'default' : String(stream)] as const),
        ]}
        choose={(value) => update({ stream: value === '' ? null : Number(value) })}
      />
      <Choice
        label="Pool"
        value={state.pool ?? ''}
        options={[['', 'all'], ...pools.map((pool): Option => [pool, pool])]}
        choose={(value) => update({ pool: value === '' ? null : value })}
      />
      <label>
        Search stacks{' '}
        <input
          id="search"
          type="search"
          value={state.search}
          placeholder="name or file:line"
          onInput={(event) => update({ search: event.currentTarget.value })}
        />
      </label>
      <Sums {...props} />
      <span class="gap" />
      <Choice
        label="Theme"
        value={state.theme}
        options={[
          ['auto', 'as the system'],
          ['light', 'light'],
          ['dark', 'dark'],
        ]}
        choose={(value) => update({ theme: value as 'auto' })}
      />
      <label class="button">
        Open…{' '}
        <input type="file" multiple hidden onChange={(event) => void open([...(event.currentTarget.files ?? [])])} />
      </label>
      <details class="keys">
        <summary>Keys</summary>
        <dl>
          {KEYS.map(({ shown, meaning }) => (
            <>
              <dt>
                <kbd>{shown}</kbd>
              </dt>
              <dd>{meaning}</dd>
            </>
          ))}
        </dl>
      </details>
    </header>
  );
}

/** What passes the filters, now and at the peak. */
function Sums(props: ViewProps) {
  const { history, passing } = props;
  const moment = momentOf(props);
  const now = useMemo(() => allocatedAfter(history, moment, passing), [history, moment, passing]);
  const peak = useMemo(() => allocatedAfter(history, history.peak, passing), [history, passing]);
  const words = ({ bytes, count }: Sum) => `${formatSize(bytes)} in ${count.toLocaleString('en')} blocks`;
  if (passing === null) return null;
  return (
    <output
      id="sums"
      data-bytes={now.bytes}
      data-count={now.count}
      data-peak-bytes={peak.bytes}
      data-peak-count={peak.count}
    >
      {words(now)} here, {words(peak)} at the peak
    </output>
  );
}

type Option = readonly [value: string, text: string];

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly options: readonly Option[];
  readonly choose: (value: string) => void;
}

function Choice({ label, value, options, choose }: ChoiceProps) {
  return (
    <label>
      {label}{' '}
      <select value={value} onChange={(event) => choose(event.currentTarget.value)}>
        {options.map(([key, text]) => (
          <option value={key} key={key}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}
