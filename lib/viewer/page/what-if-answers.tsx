// The figures of a replay beside what was recorded, and those of many settings in one table. Must not know the picture above them.

import { formatSize } from '../../units.js';
import type { WhatIfAnswer, WhatIfCourse } from '../what-if.js';
import { StateLink } from './diagnosis-link.js';
import type { WhatIfPanelProps } from './what-if-session.js';

const count = (value: number): string => value.toLocaleString('en');

type AnswersProps = WhatIfPanelProps & { readonly answer: WhatIfAnswer };

export function WhatIfAnswers(props: AnswersProps) {
  const { answer, history } = props;
  const { tried, baseline, fidelity, question } = answer;
  const { allocated, reserved } = history.lifetimes;
  const highest = (bytes: Float64Array): number => bytes.reduce((most, value) => Math.max(most, value), 0);
  const rows: readonly (readonly [name: string, ...cells: string[]])[] = [
    ['Peak reserved', formatSize(highest(reserved)), formatSize(baseline.peakReserved), formatSize(tried.peakReserved)],
    [
      'Peak allocated',
      formatSize(highest(allocated)),
      formatSize(baseline.peakAllocated),
      formatSize(tried.peakAllocated),
    ],
    ['Out of memories', count(history.outOfMemories.length), count(baseline.outOfMemories), count(tried.outOfMemories)],
    ['Retries after giving memory back', '', count(baseline.retries), count(tried.retries)],
    ['Segments or maps made', '', count(baseline.segments), count(tried.segments)],
    ['Calls of the driver', '', count(baseline.driverCalls), count(tried.driverCalls)],
  ];
  return (
    <>
      <table
        id="what-if-figures"
        data-conf={tried.conf}
        data-peak-reserved={tried.peakReserved}
        data-baseline-reserved={baseline.peakReserved}
        data-recorded-reserved={highest(reserved)}
        data-out-of-memories={tried.outOfMemories}
      >
        <caption>
          {tried.conf === '' ? 'The defaults' : <code>{tried.conf}</code>}
          {tried.policy === 'default' ? " with cudalloc's own policy" : ''} on a device of{' '}
          {question.capacity === null ? 'any size' : formatSize(question.capacity)}
        </caption>
        <thead>
          <tr>
            <th scope="col">Figure</th>
            <th scope="col" class="number">
              Recorded
            </th>
            <th scope="col" class="number">
              Recorded settings, replayed
            </th>
            <th scope="col" class="number">
              These settings, replayed
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, ...cells]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              {cells.map((cell, i) => (
                <td class="number" key={i}>
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <Failures {...props} course={tried} />
      <p class="faint" id="what-if-fidelity" data-exact={fidelity.exact} data-allocations={fidelity.allocations}>
        Under the recorded settings a replay places {count(fidelity.exact)} of {count(fidelity.allocations)} recorded
        allocations where they were: so far it can be trusted.
      </p>
    </>
  );
}

/** Links named at most. */
const NAMED = 8;

function Failures(props: AnswersProps & { readonly course: WhatIfCourse }) {
  const { failures, outOfMemories } = props.course;
  if (outOfMemories === 0) return null;
  const named = failures.slice(0, NAMED);
  return (
    <p id="what-if-failures">
      Requests that would run out of memory:{' '}
      {named.map((event, i) => (
        <>
          {i === 0 ? '' : ', '}
          {event < 0 ? (
            'one from before the recording'
          ) : (
            <StateLink {...props} to={{ view: 'timeline', cursor: event }}>
              event {count(event)}
            </StateLink>
          )}
        </>
      ))}
      {outOfMemories > named.length ? ` and ${count(outOfMemories - named.length)} more` : ''}.
    </p>
  );
}

export function WhatIfTried({ session, capacity }: WhatIfPanelProps) {
  const { tried } = session.state;
  if (tried === null) return null;
  const { recorded } = session;
  const rows = [...tried.rows].sort((a, b) => a.outOfMemories - b.outOfMemories || a.peakReserved - b.peakReserved);
  return (
    <table id="what-if-tried" data-going={tried.going}>
      <caption>
        The usual settings, those that serve most with least memory first ({count(rows.length)} of {count(tried.of)}{' '}
        run)
      </caption>
      <thead>
        <tr>
          <th scope="col">Settings</th>
          <th scope="col" class="number">
            Peak reserved
          </th>
          <th scope="col" class="number">
            Out of memories
          </th>
          <th scope="col" class="number">
            Retries
          </th>
          <th scope="col" class="number">
            Calls of the driver
          </th>
          <th scope="col">Picture</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(({ conf, policy, ...row }) => (
          <tr key={`${policy} ${conf}`} data-conf={conf} data-peak-reserved={row.peakReserved}>
            <th scope="row">
              {conf === '' ? 'the defaults' : <code>{conf}</code>}
              {conf === recorded.conf && policy === recorded.policy ? ' (as recorded)' : ''}
            </th>
            <td class="number">{formatSize(row.peakReserved)}</td>
            <td class="number">{count(row.outOfMemories)}</td>
            <td class="number">{count(row.retries)}</td>
            <td class="number">{count(row.driverCalls)}</td>
            <td>
              <button
                type="button"
                disabled={tried.going}
                onClick={() => {
                  session.write({ conf, policy });
                  void session.ask(capacity);
                }}
              >
                Draw
              </button>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
