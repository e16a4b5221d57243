// Call sites and what they hold, sortable; a row opens to its stacks. Must not know how the rows were made.

import { useMemo, useState } from 'preact/hooks';
import { formatSize } from '../../units.js';
import { noStackWords, type SiteRow, type StackSums } from '../holders/holders.js';
import { searchFor } from './legend.js';
import { StackList } from './stack-list.js';
import type { ViewProps } from './view-props.js';

/** Rows that are shown before people ask for more, and how many more then. */
const SHOWN = 200;
const MORE = 1000;
/** Stacks of a site that are shown. */
const STACKS = 5;

interface Props extends ViewProps {
  readonly rows: readonly SiteRow[];
  readonly sums: StackSums;
  /** Null: nothing is compared. */
  readonly compared: StackSums | null;
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

interface Sort {
  readonly column: Column;
  readonly descending: boolean;
}

function sortValue(row: SiteRow, column: Column): number | string {
  if (column === 'name') return row.name;
  if (column === 'change') return row.bytes - row.bytesA;
  return column === 'share' ? row.bytes : row[column];
}

export function HoldersTable(props: Props) {
  const { rows, compared, state } = props;
  const [wanted, setSort] = useState<Sort | null>(null);
  const [most, setMost] = useState(SHOWN);
  const [open, setOpen] = useState<string | null>(null);
  const columns = COLUMNS.filter((column) => compared !== null || !column.compared);
  const sort =
    wanted !== null && columns.some(({ column }) => column === wanted.column)
      ? wanted
      : { column: compared === null ? ('bytes' as const) : ('change' as const), descending: true };
  const sorted = useMemo(() => {
    const direction = sort.descending ? -1 : 1;
    return [...rows].sort((a, b) => {
      const [x, y] = [sortValue(a, sort.column), sortValue(b, sort.column)];
      return direction * (x < y ? -1 : x > y ? 1 : 0);
    });
  }, [rows, sort.column, sort.descending]);
  return (
    <table id="holders-table">
      <caption>By call site{state.search === '' ? '' : `, with ${JSON.stringify(state.search)} in the stack`}</caption>
      <thead>
        <tr>
          {columns.map(({ column, text }) => (
            <Heading key={column} column={column} text={text} sort={sort} onSort={setSort} />
          ))}
        </tr>
      </thead>
      <tbody>
        {sorted.slice(0, most).map((row) => (
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
        <Rest rows={sorted.slice(most)} columns={columns.length} onMore={() => setMost(most + MORE)} />
        <Total {...props} />
      </tfoot>
    </table>
  );
}

interface HeadingProps {
  readonly column: Column;
  readonly text: string;
  readonly sort: Sort;
  readonly onSort: (sort: Sort) => void;
}

function Heading({ column, text, sort, onSort }: HeadingProps) {
  const isSorted = sort.column === column;
  return (
    <th
      scope="col"
      class={column === 'name' ? '' : 'number'}
      aria-sort={isSorted ? (sort.descending ? 'descending' : 'ascending') : 'none'}
    >
      <button
        type="button"
        class="link"
        onClick={() => onSort({ column, descending: isSorted ? !sort.descending : column !== 'name' })}
      >
        {text}
        {isSorted ? (sort.descending ? ' ▾' : ' ▴') : ''}
      </button>
    </th>
  );
}

interface RowProps extends Props {
  readonly row: SiteRow;
  readonly isOpen: boolean;
  readonly columns: number;
  readonly onToggle: () => void;
}

function Row(props: RowProps) {
  const { row, isOpen, columns, onToggle, sums, history, compared } = props;
  return (
    <>
      <tr data-bytes={row.bytes} data-count={row.count} data-bytes-a={row.bytesA} data-count-a={row.countA}>
        <th scope="row">
          <button type="button" class="link" aria-expanded={isOpen} onClick={onToggle}>
            {isOpen ? '▾' : '▸'} {row.key === '' ? noStackWords({ sums, history }) : row.name}
          </button>
        </th>
        <Numbers {...row} all={sums} compares={compared !== null} />
      </tr>
      {isOpen ? (
        <tr>
          <td colSpan={columns}>
            <Stacks {...props} />
          </td>
        </tr>
      ) : null}
    </>
  );
}

interface NumbersProps extends Pick<SiteRow, 'bytes' | 'count' | 'largest' | 'bytesA'> {
  readonly all: StackSums;
  readonly compares: boolean;
}

function Numbers({ bytes, count, largest, bytesA, all, compares }: NumbersProps) {
  const change = bytes - bytesA;
  return (
    <>
      <td class="number">{formatSize(bytes)}</td>
      <td class="number">{((100 * bytes) / (all.totalBytes || 1)).toFixed(1)} %</td>
      <td class="number">{count.toLocaleString('en')}</td>
      <td class="number">{formatSize(largest)}</td>
      {compares ? (
        <>
          <td class="number">{formatSize(bytesA)}</td>
          <td class={change > 0 ? 'number bad' : 'number'}>
            {change > 0 ? '+' : ''}
            {formatSize(change)}
          </td>
        </>
      ) : null}
    </>
  );
}

function Stacks({ row, update, history }: RowProps) {
  return (
    <>
      {row.key === '' ? null : (
        <button type="button" onClick={() => update({ view: 'timeline', search: searchFor(row.name) })}>
          Show in the timeline
        </button>
      )}
      {row.stacks.slice(0, STACKS).map(({ stack, bytes, count }) => (
        <div key={stack} data-stack={stack} data-bytes={bytes}>
          <p>
            {formatSize(bytes)} in {count.toLocaleString('en')} blocks
          </p>
          <StackList frames={history.snapshot.stacks.frames(stack)} />
        </div>
      ))}
      {row.stacks.length > STACKS ? <RestOfStacks stacks={row.stacks.slice(STACKS)} /> : null}
      {row.stacks.length === 0 ? <p class="faint">Nothing of it is left.</p> : null}
    </>
  );
}

function RestOfStacks({ stacks }: { readonly stacks: SiteRow['stacks'] }) {
  const bytes = stacks.reduce((sum, stack) => sum + stack.bytes, 0);
  return (
    <p class="faint">
      and {stacks.length.toLocaleString('en')} more stacks with {formatSize(bytes)}
    </p>
  );
}

interface RestProps {
  readonly rows: readonly SiteRow[];
  readonly columns: number;
  readonly onMore: () => void;
}

function Rest({ rows, columns, onMore }: RestProps) {
  if (rows.length === 0) return null;
  const bytes = rows.reduce((sum, row) => sum + row.bytes, 0);
  return (
    <tr id="holders-rest" data-rows={rows.length} data-bytes={bytes}>
      <td colSpan={columns}>
        and {rows.length.toLocaleString('en')} more call sites with {formatSize(bytes)}{' '}
        <button type="button" onClick={onMore}>
          Show more
        </button>
      </td>
    </tr>
  );
}

function Total({ rows, sums, compared }: Props) {
  const largest = rows.reduce((most, row) => Math.max(most, row.largest), 0);
  return (
    <tr
      id="holders-total"
      class="sum"
      data-bytes={sums.totalBytes}
      data-count={sums.totalCount}
      data-bytes-a={compared?.totalBytes ?? 0}
      data-count-a={compared?.totalCount ?? 0}
    >
      <th scope="row">all</th>
      <Numbers
        bytes={sums.totalBytes}
        count={sums.totalCount}
        largest={largest}
        bytesA={compared?.totalBytes ?? 0}
        all={sums}
        compares={compared !== null}
      />
    </tr>
  );
}
