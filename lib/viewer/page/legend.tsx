// What the colours mean, with the bytes of each at the moment and at the peak; a table, so that it can be read aloud. A click looks for the site.

import { useMemo } from 'preact/hooks';
import { formatSize } from '../../units.js';
import { type Grouping, groupColours } from '../colours.js';
import { momentOf } from './keys.js';
import type { ViewProps } from './view-props.js';

export function Legend(props: ViewProps & { readonly grouping: Grouping }) {
  const { history, grouping, palette, update, passing, state } = props;
  const moment = momentOf(props);
  const colours = useMemo(() => groupColours(grouping, palette), [grouping, palette]);
  const now = useMemo(() => bytesOfGroups(props, moment), [history, grouping, passing, moment]);
  const active = (history.lifetimes.active[moment + 1] as number) - (history.lifetimes.allocated[moment + 1] as number);
  return (
    <table class="legend" id="legend">
      <caption>
        Allocated by {{ site: 'call site', category: 'kind of work', stream: 'stream', pool: 'pool' }[state.colouring]}
      </caption>
      <thead>
        <tr>
          <th scope="col">Colour</th>
          <th scope="col" class="number">
            Here
          </th>
          <th scope="col" class="number">
            At the peak
          </th>
        </tr>
      </thead>
      <tbody>
        {grouping.names.map((name, group) =>
          group === grouping.names.length - 1 &&
          (now[group] as number) === 0 &&
          grouping.peakBytes[group] === 0 ? null : (
            <tr key={name}>
              <th scope="row">
                <i style={{ background: colours[group] ?? '' }} />
                {state.colouring === 'site' && group < grouping.names.length - 1 && name !== 'no stack' ? (
                  <button
                    type="button"
                    class="link"
                    title="Look for it in the stacks"
                    onClick={() => update({ search: searchFor(name) })}
                  >
                    {name}
                  </button>
                ) : (
                  name
                )}
              </th>
              <td class="number" data-bytes={now[group]}>
                {formatSize(now[group] as number)}
              </td>
              <td class="number">{formatSize(grouping.peakBytes[group] as number)}</td>
            </tr>
          ),
        )}
        {active > 0 ? (
          <tr>
            <th scope="row">
              <i style={{ background: palette.pending }} />
              freed, still awaited by another stream
            </th>
            <td class="number">{formatSize(active)}</td>
            <td />
          </tr>
        ) : null}
      </tbody>
    </table>
  );
}

/** `file.py:12` of `name (file.py:12)`, with a blank: the search finds that line and no longer number. */
export function searchFor(site: string): string {
  const place = /\(([^()]*:\d+)\)$/.exec(site)?.[1];
  return place === undefined ? site : `${place} `;
}

function bytesOfGroups(
  { history, grouping, passing }: ViewProps & { readonly grouping: Grouping },
  moment: number,
): Float64Array {
  const { starts, freed, sizes, length } = history.lifetimes.blocks;
  const bytes = new Float64Array(grouping.names.length);
  for (let row = 0; row < length && (starts[row] as number) <= moment; row++) {
    if ((freed[row] as number) <= moment || (passing !== null && passing[row] === 0)) continue;
    const group = grouping.groupOf[row] as number;
    bytes[group] = (bytes[group] as number) + (sizes[row] as number);
  }
  return bytes;
}
