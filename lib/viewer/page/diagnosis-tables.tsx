// The report's lists as tables: what pins segments, who holds most, what grows, the pools; and what is not known. Must not know how a figure
// is made.

import { useState } from 'preact/hooks';
import type { DeviceReport, Report } from '../../analysis/report/format.js';
import { siteName, siteSearch, sumBySite } from '../diagnosis/sites.js';
import { poolName } from '../filter.js';
import { BytesCell } from './bytes-cell.js';
import { StateLink } from './diagnosis-link.js';
import type { ViewName } from './store.js';
import type { ViewProps } from './view-props.js';

/** Rows of each list that are shown at first. */
const SHOWN = 10;

type Props = ViewProps & { readonly report: Report };

/** The first rows, or all; and the button between the two. */
function useShown<T>(rows: readonly T[]): readonly [shown: readonly T[], more: preact.ComponentChildren] {
  const [all, setAll] = useState(false);
  if (rows.length <= SHOWN) return [rows, null];
  const button = (
    <button type="button" class="link" onClick={() => setAll(!all)}>
      {all ? `Only the first ${SHOWN}` : `Show all ${rows.length.toLocaleString('en')}`}
    </button>
  );
  return [all ? rows : rows.slice(0, SHOWN), button];
}

interface ListProps {
  readonly id: string;
  readonly title: string;
  /** Those that begin with # stand over numbers. */
  readonly head: readonly string[];
  readonly more?: preact.ComponentChildren;
  readonly children: preact.ComponentChildren;
}

function List({ id, title, head, more = null, children }: ListProps) {
  return (
    <table id={id}>
      <caption>{title}</caption>
      <thead>
        <tr>
          {head.map((name) => (
            <th scope="col" key={name} class={name.startsWith('#') ? 'number' : ''}>
              {name.replace(/^#/, '')}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>{children}</tbody>
      {more === null ? null : (
        <tfoot>
          <tr>
            <td colSpan={head.length}>{more}</td>
          </tr>
        </tfoot>
      )}
    </table>
  );
}

/** A call site, leading to where the search finds it. */
function Site(
  props: ViewProps & {
    readonly name: string;
    readonly search: string | null;
    readonly view: ViewName;
    readonly at: number | null;
  },
) {
  const { name, search, view, at } = props;
  if (search === null) return <>{name}</>;
  return (
    <StateLink {...props} to={{ view, search, cursor: at }} title={search}>
      {name}
    </StateLink>
  );
}

export function Pinning(props: Props) {
  const rows = props.report.pinning.filter(({ device }) => device === props.state.device);
  const [shown, more] = useShown(rows);
  if (rows.length === 0) return null;
  return (
    <List
      id="pinning"
      title="Pinned: segments that live blocks keep from being given back, those with most free memory first"
      head={['Segment', '#Pinned', '#By live', '#Blocks', 'Stream, pool', 'Largest of them from']}
      more={more}
    >
      {shown.map((row) => (
        <tr key={row.segment} data-segment={row.segment}>
          <th scope="row">
            <StateLink {...props} to={{ view: 'segments', cursor: null, address: row.segment }}>
              0x{row.segment.toString(16)}
            </StateLink>
          </th>
          <BytesCell value={row.pinned_bytes} />
          <BytesCell value={row.live_bytes} />
          <td class="number">{row.live_blocks.toLocaleString('en')}</td>
          <td>
            {row.stream}, {row.pool}
          </td>
          <td>
            <Site {...props} name={siteName(row.frames)} search={siteSearch(row.frames)} view="holders" at={null} />
          </td>
        </tr>
      ))}
    </List>
  );
}

export function Holders(props: Props) {
  const { report, state } = props;
  const rows = sumBySite(
    report.holders.filter(({ device }) => device === state.device),
    (sum, row) => ({ ...sum, bytes: sum.bytes + row.bytes, count: sum.count + row.count }),
  ).sort((a, b) => b.sum.bytes - a.sum.bytes);
  const [shown, more] = useShown(rows);
  if (rows.length === 0) return null;
  return (
    <List id="most-held" title="Held at the end, by call site" head={['Call site', '#Bytes', '#Blocks']} more={more}>
      {shown.map(({ name, search, sum }) => (
        <tr key={search ?? name} data-site={name}>
          <th scope="row">
            <Site {...props} name={name} search={search} view="holders" at={report.at.event} />
          </th>
          <BytesCell value={sum.bytes} />
          <td class="number">{sum.count.toLocaleString('en')}</td>
        </tr>
      ))}
    </List>
  );
}

export function Growth(props: Props) {
  const rows = props.report.growth.filter(({ device }) => device === props.state.device);
  const [shown, more] = useShown(rows);
  if (rows.length === 0) return null;
  return (
    <List
      id="growth"
      title="Grows from iteration to iteration and never comes back"
      head={['Call site', '#Bytes', '#An iteration', '#Blocks an iteration', '#Iterations']}
      more={more}
    >
      {shown.map((row, i) => (
        <tr key={i}>
          <th scope="row">
            <Site {...props} name={siteName(row.frames)} search={siteSearch(row.frames)} view="timeline" at={null} />
          </th>
          <BytesCell value={row.bytes} />
          <BytesCell value={row.bytes_per_iteration} />
          <td class="number">{row.count_per_iteration.toLocaleString('en', { maximumFractionDigits: 1 })}</td>
          <td class="number">{row.iterations.toLocaleString('en')}</td>
        </tr>
      ))}
    </List>
  );
}

export function Pools(props: ViewProps & { readonly device: DeviceReport }) {
  const { pools } = props.device;
  if (pools.length === 0) return null;
  return (
    <List
      id="pools"
      title="Pools and streams"
      head={[
        'Pool, stream',
        '#Segments',
        '#Reserved',
        '#Allocated',
        '#Wholly free',
        '#Stuck',
        '#Largest free',
        '#Largest request',
      ]}
    >
      {pools.map((pool) => {
        const name = poolName({ segmentType: pool.pool, poolId: pool.pool_id });
        return (
          <tr key={`${name} ${pool.stream}`} data-pool={name} data-stream={pool.stream}>
            <th scope="row">
              <StateLink {...props} to={{ view: 'segments', cursor: null, stream: pool.stream, pool: name }}>
                {name}, stream {pool.stream}
              </StateLink>
            </th>
            <td class="number">{pool.segments.toLocaleString('en')}</td>
            <BytesCell value={pool.reserved} />
            <BytesCell value={pool.allocated} />
            <BytesCell value={pool.gap.wholly_free} />
            <BytesCell value={pool.gap.stuck} />
            <BytesCell value={pool.largest_free_block} />
            <BytesCell value={pool.largest_request} />
          </tr>
        );
      })}
    </List>
  );
}

export function Notes({ report }: { readonly report: Report }) {
  if (report.notes.length === 0) return null;
  return (
    <section id="notes">
      <h3>Not known</h3>
      <ul>
        {report.notes.map((note) => (
          <li key={note}>{note}</li>
        ))}
      </ul>
    </section>
  );
}
