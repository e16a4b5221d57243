// The moments worth knowing as a table of numbers: what the picture shows, for reading and for screen readers.

import { BytesCell } from './bytes-cell.js';
import { momentOf } from './keys.js';
import type { ViewProps } from './view-props.js';

/** Out of memories that have a row of their own. */
const NAMED = 5;

export function MomentsTable(props: ViewProps) {
  const { history, state, update } = props;
  const { allocated, active, reserved } = history.lifetimes;
  const rows: readonly (readonly [name: string, moment: number])[] = [
    ['start', -1],
    ['peak', history.peak],
    ...history.outOfMemories.slice(0, NAMED).map((event) => ['out of memory', event] as const),
    ['end', history.events - 1],
    ...(state.other === null ? [] : [['compared', Math.round(state.other)] as const]),
    ['cursor', momentOf(props)],
  ];
  return (
    <table class="moments" id="moments">
      <caption>Moments</caption>
      <thead>
        <tr>
          <th scope="col">Moment</th>
          <th scope="col" class="number">
            After event
          </th>
          <th scope="col" class="number">
            Allocated
          </th>
          <th scope="col" class="number">
            Active
          </th>
          <th scope="col" class="number">
            Reserved
          </th>
          <th scope="col" class="number">
            Gap
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, moment], i) => (
          <tr key={`${name}${i}`} data-name={name} data-moment={moment}>
            <th scope="row">
              <button type="button" class="link" onClick={() => update({ cursor: moment })}>
                {name}
              </button>
            </th>
            <td class="number">{moment < 0 ? 'none' : moment.toLocaleString('en')}</td>
            <BytesCell value={allocated[moment + 1] as number} />
            <BytesCell value={active[moment + 1] as number} />
            <BytesCell value={reserved[moment + 1] as number} />
            <BytesCell value={(reserved[moment + 1] as number) - (allocated[moment + 1] as number)} />
          </tr>
        ))}
      </tbody>
      {history.outOfMemories.length > NAMED ? (
        <tfoot>
          <tr>
            <td colSpan={6} class="faint">
              and {(history.outOfMemories.length - NAMED).toLocaleString('en')} more out of memories: key o goes from
              one to the next
            </td>
          </tr>
        </tfoot>
      ) : null}
    </table>
  );
}
