// Why memory ran out or would: the report in words and pictures, each number leading to what it counts, and replays under other settings.
// Must not know how a figure is made.

import { useEffect, useMemo, useState } from 'preact/hooks';
import type { DeviceReport, MemoryFigures, Report } from '../../analysis/report/format.js';
import { memoryFigures } from '../../analysis/report/gap.js';
import { formatSize } from '../../units.js';
import { verdictSentence, verdictTitle } from '../diagnosis/words.js';
import type { Analyst } from './analyst.js';
import { Figures, Moments } from './diagnosis-figures.js';
import { StateLink } from './diagnosis-link.js';
import { Growth, Holders, Notes, Pinning, Pools } from './diagnosis-tables.js';
import type { ViewProps } from './view-props.js';
import { WhatIfPanel } from './what-if-panel.js';
import { useWhatIfSession, type WhatIfSession } from './what-if-session.js';

export function DiagnosisView(props: ViewProps) {
  const { history, analyst, state } = props;
  const session = useWhatIfSession(analyst, history);
  const first = useFirstReport(analyst);
  const failed = props.report instanceof Error ? props.report : null;
  const whole = failed === null ? (props.report as Report | null) : null;
  const report = whole ?? first;
  const device = report?.devices.find((one) => one.device === state.device) ?? null;
  // What needs no report is there at once.
  const figures = useMemo<MemoryFigures>(
    () =>
      memoryFigures(
        history.snapshot.segments.filter((segment) => segment.device === history.device),
        null,
      ),
    [history],
  );
  const capacity = props.capacity ?? device?.capacity ?? null;
  const shared = { ...props, capacity };
  return (
    <div class="diagnosis" data-stage={whole !== null ? 'whole' : report !== null ? 'first' : 'figures'}>
      {report === null ? null : (
        <Verdict {...shared} report={report} figures={device ?? figures} session={session} waiting={whole === null} />
      )}
      {failed === null ? null : (
        <p class="bad" role="alert">
          The report could not be made: {failed.message}
        </p>
      )}
      {whole !== null || failed !== null ? null : (
        <p id="report-waiting" class="faint" role="status">
          {report === null
            ? 'The report is being made…'
            : 'The recording is replayed under some settings to see which of them would help…'}
        </p>
      )}
      <Figures {...shared} figures={device ?? figures} device={device} />
      {device === null ? null : <Moments {...shared} device={device} />}
      <WhatIfPanel {...shared} session={session} />
      {report === null ? null : <Lists {...shared} report={report} device={device} />}
    </div>
  );
}

function Lists(props: ViewProps & { readonly report: Report; readonly device: DeviceReport | null }) {
  const { report, device } = props;
  return (
    <>
      <Pinning {...props} report={report} />
      <Holders {...props} report={report} />
      <Growth {...props} report={report} />
      {device === null ? null : <Pools {...props} device={device} />}
      <Notes report={report} />
    </>
  );
}

/** The report without advice, which is there much earlier; null until then. */
function useFirstReport(analyst: Analyst): Report | null {
  const [first, setFirst] = useState<{ readonly of: Analyst; readonly report: Report | null } | null>(null);
  useEffect(() => {
    void analyst.firstReport().then((report) => setFirst({ of: analyst, report }));
  }, [analyst]);
  return first?.of === analyst ? first.report : null;
}

interface VerdictProps extends ViewProps {
  readonly report: Report;
  readonly figures: MemoryFigures;
  readonly session: WhatIfSession;
  readonly waiting: boolean;
}

function Verdict(props: VerdictProps) {
  const { report, figures, state } = props;
  const { verdict } = report;
  const { kind, request, short_by: shortBy, device } = verdict;
  return (
    <section id="verdict" data-kind={kind} data-short-by={shortBy ?? ''} aria-label="Verdict">
      <h2 class={kind === 'none' ? '' : 'bad'}>{verdictTitle(verdict)}</h2>
      <p class="sentence">{verdictSentence(verdict, figures)}</p>
      {request === null ? null : (
        <p>
          The request: {formatSize(request.bytes)} on stream {request.stream}
          {report.devices.length > 1 ? ` of device ${device}` : ''}
          {request.event === null ? null : (
            <>
              {' '}
              at{' '}
              <StateLink {...props} to={{ view: 'timeline', device, cursor: request.event }} id="to-request">
                event {request.event.toLocaleString('en')}
              </StateLink>
            </>
          )}
          {shortBy === null ? '' : `; ${formatSize(shortBy)} are missing even if every free byte could be used`}.
        </p>
      )}
      {device === state.device || report.devices.length < 2 ? null : (
        <p class="faint">The figures below are those of device {state.device}.</p>
      )}
      <AdviceTable {...props} />
      {kind === 'full' || kind === 'too_large' ? (
        <p>No setting makes it fit: see what holds most, below, or use less of it.</p>
      ) : null}
    </section>
  );
}

function AdviceTable({ report, session, capacity, state }: VerdictProps) {
  const { advice, device } = report.verdict;
  if (advice.length === 0) return null;
  return (
    <table id="advice">
      <caption>Settings that change it, found by replaying the recording</caption>
      <thead>
        <tr>
          <th scope="col">Settings</th>
          <th scope="col">Serves the request</th>
          <th scope="col" class="number">
            Peak reserved
          </th>
          <th scope="col">See it</th>
        </tr>
      </thead>
      <tbody>
        {advice.map(({ conf, policy, survives, predicted_peak: peak }) => (
          <tr key={`${policy} ${conf}`} data-conf={conf}>
            <th scope="row">
              <code>{conf}</code>
            </th>
            <td>{survives ? 'yes' : 'no, but it needs less'}</td>
            <td class="number" data-bytes={peak}>
              {formatSize(peak)}
            </td>
            <td>
              <button
                type="button"
                class="try"
                disabled={device !== state.device}
                onClick={() => {
                  session.write({ conf, policy });
                  void session.ask(capacity);
                  document.getElementById('what-if')?.scrollIntoView();
                }}
              >
                Try it
              </button>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
