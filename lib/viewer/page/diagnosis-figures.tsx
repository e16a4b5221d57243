// The figures of a device at the end of the recording, with the moments worth seeing; each leads to what it counts. Must not know the report's
// verdict.

import type { ComponentChildren } from 'preact';
import type { DeviceReport, MemoryFigures } from '../../analysis/report/format.js';
import { formatSize } from '../../units.js';
import { memoryParts, type PartName } from '../diagnosis/memory-parts.js';
import { StateLink } from './diagnosis-link.js';
import { GapBar, partColour, partPlace } from './gap-bar.js';
import type { ViewState } from './store.js';
import type { ViewProps } from './view-props.js';

interface Props extends ViewProps {
  readonly figures: MemoryFigures;
  /** Null while the report is being made. */
  readonly device: DeviceReport | null;
}

export function Figures(props: Props) {
  const { figures, device, capacity, palette } = props;
  const parts = memoryParts(figures, capacity);
  const segments = props.history.snapshot.segments.filter((segment) => segment.device === props.history.device).length;
  const named: readonly PartName[] = ['wholly_free', 'stuck', 'other_stream', 'pending'];
  return (
    <section aria-label="Figures at the end">
      <GapBar {...props} parts={parts} />
      <table id="figures">
        <caption>Device {props.state.device} at the end</caption>
        <tbody>
          <Row {...props} name="reserved" bytes={figures.reserved} to={{ view: 'segments', cursor: null }}>
            {segments.toLocaleString('en')} segments held from the device
            {capacity === null ? '' : `, which has ${formatSize(capacity)}`}
          </Row>
          <Row
            {...props}
            name="allocated"
            bytes={figures.allocated}
            to={partPlace('requested')}
            colour={partColour('requested', palette)}
          >
            in use by the program
          </Row>
          <Row {...props} name="rounding" bytes={figures.rounding} to={null} colour={partColour('rounding', palette)}>
            of that, more than was asked for
          </Row>
          <Row
            {...props}
            name="gap"
            bytes={figures.reserved - figures.allocated}
            to={{ view: 'segments', cursor: null }}
          >
            reserved, not allocated: the four parts that follow
          </Row>
          {named.map((name) => {
            const part = parts.find((other) => other.name === name);
            return part === undefined ? null : (
              <Row
                {...props}
                key={name}
                name={part.label}
                bytes={part.bytes}
                to={partPlace(name)}
                colour={partColour(name, palette)}
              >
                {part.meaning}
              </Row>
            );
          })}
          <Row {...props} name="largest free" bytes={figures.largest_free_block} to={null}>
            free in one piece
          </Row>
          {device === null || device.largest_request === null ? null : (
            <Row {...props} name="largest request" bytes={device.largest_request} to={null}>
              that would succeed now
            </Row>
          )}
        </tbody>
      </table>
    </section>
  );
}

interface RowProps extends Props {
  readonly name: string;
  readonly bytes: number;
  readonly to: Partial<ViewState> | null;
  readonly colour?: string;
  readonly children: ComponentChildren;
}

function Row(props: RowProps) {
  const { name, bytes, to, colour, children } = props;
  const id = name.replaceAll(' ', '-');
  return (
    <tr>
      <th scope="row">
        {colour === undefined ? null : <i class="swatch" style={{ background: colour }} />}
        {to === null || bytes === 0 ? (
          name
        ) : (
          <StateLink {...props} to={to} id={`to-${id}`}>
            {name}
          </StateLink>
        )}
      </th>
      <td class="number" id={`figure-${id}`} data-bytes={bytes}>
        {formatSize(bytes)}
      </td>
      <td class="faint">{children}</td>
    </tr>
  );
}

/** Out of memories that are named. */
const NAMED = 8;

export function Moments(props: ViewProps & { readonly device: DeviceReport }) {
  const { device, history } = props;
  const { peak, pending_peak: pending } = device;
  const failures = history.outOfMemories;
  const at = (event: number, id?: string) => (
    <StateLink {...props} to={{ view: 'timeline', cursor: event }} {...(id === undefined ? {} : { id })}>
      event {event.toLocaleString('en')}
    </StateLink>
  );
  if (peak === null && pending === null && failures.length === 0) return null;
  return (
    <ul id="diagnosis-moments">
      {peak === null ? null : (
        <li id="figure-peak" data-bytes={peak.allocated} data-event={peak.event}>
          Most allocated: {formatSize(peak.allocated)} of {formatSize(peak.reserved)} reserved, after{' '}
          {at(peak.event, 'to-peak')} of {device.events.toLocaleString('en')}.
        </li>
      )}
      {pending === null ? null : (
        <li id="figure-peak-pending" data-bytes={pending.bytes} data-event={pending.event}>
          Most freed but still awaited: {formatSize(pending.bytes)} after {at(pending.event, 'to-peak-pending')} (
          {pending.by_stream.map(({ stream, bytes }) => `stream ${stream}: ${formatSize(bytes)}`).join(', ')}).
        </li>
      )}
      {failures.length === 0 ? null : (
        <li id="figure-out-of-memories" data-count={failures.length}>
          {failures.length === 1 ? 'One request' : `${failures.length.toLocaleString('en')} requests`} ran out of
          memory:{' '}
          {failures.slice(0, NAMED).map((event, i) => (
            <>
              {i === 0 ? '' : ', '}
              {at(event)}
            </>
          ))}
          {failures.length > NAMED ? ` and ${(failures.length - NAMED).toLocaleString('en')} more` : ''}.
        </li>
      )}
    </ul>
  );
}
