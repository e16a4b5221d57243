// Call sites and what they hold, sortable; a row opens to its stacks. Must not know how the rows were made.

import { useMemo, useState } from 'preact/hooks';
import { formatSize } from '../../units.js';
import type { DeviceHistory } from '../device-history.js';
import { noStackWords, type SiteRow, type StackSums } from '../holders/holders.js';
import { searchFor } from './legend.js';
import type { ViewProps } from './view-props.js';

/** Rows that are shown before people ask for more. */
const SHOWN = 200;
/** Stacks of a site that are shown. */
const STACKS = 5;

interface Props extends ViewProps {
  readonly rows: readonly SiteRow[];
  readonly shown: { readonly history: DeviceHistory; readonly sums: StackSums };
  readonly compares: boolean;
}

type Column = 'name' | 'bytes' | 'share' | 'count' | 'largest' | 'bytesA' | 'change';

const COLUMNS: readonly { readonly column: Column; readonly text: string; readonly compared: boolean }[] = [
  { column: 'name', text: 'Call site', compared: false },
  { column: 'bytes', text: 'Bytes', compared: false },
  { column: 'share', text: 'Share', compared: false },
  { column: 'count', text: 'Blocks', compared: false },
  { column: 'largest', text: 'Largest', compared: false },
  { column: 'bytesA', text: 'Before', compared: true },
  { column: 'change', text: 'Change', compared: true },
];

function sortValue(row: SiteRow, column: Column): number | string {
  if (column === 'name') return row.name;
  if (column === 'change') return row.bytes - row.bytesA;
  return column === 'share' ? row.bytes : row[column];
}

export function HoldersTable(props: Props) {
  const { rows, shown, compares, state } = props;
  const [sort, setSort] = useState<{ readonly column: Column; readonly descending: boolean } | null>(null);
  const [more, setMore] = useState(SHOWN);
  const [open, setOpen] = useState<string | null>(null);
  const by = sort ?? { column: compares ? 'change' : 'bytes', descending: true };
  const sorted = useMemo(() => {
    const direction = by.descending ? -1 : 1;
    return [...rows].sort((a, b) => {
      const [x, y] = [sortValue(a, by.column), sortValue(b, by.column)];
      return direction * (x < y ? -1 : x > y ? 1 : 0);
    });
  }, [rows, by.column, by.descending]);
  const rest = sorted.slice(more);
  const columns = COLUMNS.filter(({ compared }) => compares || !compared);
  return (
    <table id="holders-table">
      <caption>By call site{state.search === '' ? '' : `, with ${JSON.stringify(state.search)} in the stack`}</caption>
      <thead>
        <tr>
          {columns.map(({ column, text }) => (
            <th
              scope="col"
              key={column}
              class={column === 'name' ? '' : 'number'}
              aria-sort={by.column === column ? (by.descending ? 'descending' : 'ascending') : 'none'}
            >
              <button
                type="button"
                class="link"
                onClick={() =>
                  setSort({ column, descending: by.column === column ? !by.descending : column !== 'name' })
                }
              >
                {text}
                {by.column === column ? (by.descending ? ' ▾' : ' ▴') : ''}
              </button>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {sorted.slice(0, more).map((row) => (
          <Row
            key={row.key}
            {...props}
            row={row}
            isOpen={open === row.key}
            columns={columns.length}
            onToggle={() => setOpen(open === row.key ? null : row.key)}
          />
        ))}
      </tbody>
      <tfoot>
        {rest.length === 0 ? null : (
          <tr>
            <td colSpan={columns.length}>
              and {rest.length.toLocaleString('en')} more call sites with{' '}
              {formatSize(rest.reduce((sum, { bytes }) => sum + bytes, 0))}{' '}
              <button type="button" onClick={() => setMore(more + 1000)}>
                Show more
              </button>
            </td>
          </tr>
        )}
        <tr>
          <th scope="row">all</th>
          <td class="number" data-bytes={shown.sums.totalBytes}>
            {formatSize(shown.sums.totalBytes)}
          </td>
          <td />
          <td class="number">{shown.sums.totalCount.toLocaleString('en')}</td>
          <td colSpan={columns.length - 4} />
        </tr>
      </tfoot>
    </table>
  );
}

interface RowProps extends Props {
  readonly row: SiteRow;
  readonly isOpen: boolean;
  readonly columns: number;
  readonly onToggle: () => void;
}

function Row({ row, isOpen, columns, onToggle, shown, compares, update, history }: RowProps) {
  const name = row.key === '' ? noStackWords(shown) : row.name;
  const change = row.bytes - row.bytesA;
  return (
    <>
      <tr data-bytes={row.bytes} data-count={row.count} data-bytes-a={row.bytesA}>
        <th scope="row">
          <button type="button" class="link" aria-expanded={isOpen} onClick={onToggle}>
            {isOpen ? '▾' : '▸'} {name}
          </button>
        </th>
        <td class="number">{formatSize(row.bytes)}</td>
        <td class="number">{((100 * row.bytes) / (shown.sums.totalBytes || 1)).toFixed(1)} %</td>
        <td class="number">{row.count.toLocaleString('en')}</td>
        <td class="number">{formatSize(row.largest)}</td>
        {compares ? (
          <>
            <td class="number">{formatSize(row.bytesA)}</td>
            <td class={change > 0 ? 'number bad' : 'number'}>
              {change > 0 ? '+' : ''}
              {formatSize(change)}
            </td>
          </>
        ) : null}
      </tr>
      {isOpen ? (
        <tr>
          <td colSpan={columns}>
            {row.key === '' ? null : (
              <button type="button" onClick={() => update({ view: 'timeline', search: searchFor(row.name) })}>
                Show in the timeline
              </button>
            )}
            {row.stacks.slice(0, STACKS).map(({ stack, bytes, count }) => (
              <div key={stack}>
                <p>
                  {formatSize(bytes)} in {count.toLocaleString('en')} blocks
                </p>
                <ol class="stack">
                  {history.snapshot.stacks.frames(stack).map(({ name: frame, filename, line }, i) => (
                    <li key={i}>
                      {frame}{' '}
                      <span class="faint">
                        {filename}:{String(line)}
                      </span>
                    </li>
                  ))}
                </ol>
              </div>
            ))}
            {row.stacks.length > STACKS ? <p class="faint">and {row.stacks.length - STACKS} more stacks</p> : null}
            {row.stacks.length === 0 ? <p class="faint">Nothing of it is left.</p> : null}
          </td>
        </tr>
      ) : null}
    </>
  );
}
