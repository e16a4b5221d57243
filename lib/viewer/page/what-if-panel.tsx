// What if the settings had been others: a form that checks what is written while it is written, how far the replay is, and the answers.
// Must not know how a replay is done.

import { formatSize } from '../../units.js';
import { checkDraft } from '../what-if-input.js';
import { WhatIfAnswers, WhatIfTried } from './what-if-answers.js';
import { WhatIfChart } from './what-if-chart.js';
import type { WhatIfPanelProps } from './what-if-session.js';

export function WhatIfPanel(props: WhatIfPanelProps) {
  const { session, capacity } = props;
  const { running, answer, error } = session.state;
  const { recorded } = session;
  const stage = running !== null ? 'working' : error !== null ? 'failed' : answer === null ? 'empty' : 'answered';
  return (
    <section id="what-if" class="panel" data-state={stage} aria-labelledby="what-if-title">
      <h3 id="what-if-title">What if the settings had been others</h3>
      <p class="faint">
        The recorded requests are given to a simulated device under these settings, here on this machine. They were
        recorded under {recorded.conf === '' ? 'the defaults' : <code>{recorded.conf}</code>}
        {recorded.policy === 'default' ? ", with cudalloc's own policy" : ''}.
      </p>
      <Form {...props} />
      <p role="status" id="what-if-status" class={error === null ? 'faint' : 'bad'}>
        {error ?? ''}
        {running === null ? null : (
          <>
            <progress value={running.part} max={1} aria-label="How far it is" /> {running.step}…{' '}
            <button type="button" onClick={() => session.stop()}>
              Stop
            </button>
          </>
        )}
      </p>
      <WhatIfChart {...props} answer={answer} />
      {answer === null ? (
        <p class="faint">
          The picture shows what was recorded
          {capacity === null ? '' : `, on a device of ${formatSize(capacity)}`}; a replay is drawn over it.
        </p>
      ) : (
        <WhatIfAnswers {...props} answer={answer} />
      )}
      <WhatIfTried {...props} />
    </section>
  );
}

function Form({ session, capacity }: WhatIfPanelProps) {
  const draft = session.draft(capacity);
  const { confFaults, confWarnings, capacityFault } = checkDraft(draft);
  const refused = confFaults.length > 0 || capacityFault !== null;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void session.ask(capacity);
      }}
    >
      <div class="controls">
        <label>
          Settings{' '}
          <input
            id="what-if-conf"
            list="what-if-suggested"
            size={52}
            spellcheck={false}
            autocomplete="off"
            value={draft.conf}
            placeholder="none: the defaults"
            aria-invalid={confFaults.length > 0}
            aria-describedby="what-if-error"
            onInput={(event) => session.write({ conf: event.currentTarget.value })}
          />
        </label>
        <datalist id="what-if-suggested">
          {[session.recorded.conf, ...session.suggested].map((conf) => (
            <option key={conf} value={conf} />
          ))}
        </datalist>
        <label>
          Policy{' '}
          <select
            id="what-if-policy"
            value={draft.policy}
            onChange={(event) => session.write({ policy: event.currentTarget.value as 'pytorch' })}
          >
            <option value="pytorch">as PyTorch</option>
            <option value="default">cudalloc's default</option>
          </select>
        </label>
        <label>
          Device of{' '}
          <input
            id="what-if-capacity"
            size={10}
            value={draft.capacity}
            placeholder="any size"
            aria-invalid={capacityFault !== null}
            aria-describedby="what-if-error"
            onInput={(event) => session.write({ capacity: event.currentTarget.value })}
          />
        </label>
        <button type="submit" id="what-if-replay" disabled={refused}>
          Replay
        </button>
        <button
          type="button"
          id="what-if-all"
          disabled={capacityFault !== null}
          onClick={() => void session.tryAll(capacity)}
        >
          Try the usual settings
        </button>
      </div>
      <ul id="what-if-error" class="faults" aria-live="polite">
        {[...confFaults, ...(capacityFault === null ? [] : [capacityFault])].map((fault) => (
          <li class="bad" key={fault}>
            {fault}
          </li>
        ))}
        {confWarnings.map((warning) => (
          <li key={warning}>{warning}</li>
        ))}
      </ul>
    </form>
  );
}
