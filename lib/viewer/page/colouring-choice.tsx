// What blocks are coloured by, to be chosen. Must not know what is coloured.

import { COLOURINGS, type Update, type ViewState } from './store.js';

interface Props {
  readonly id: string;
  readonly state: ViewState;
  readonly update: Update;
}

export function ColouringChoice({ id, state, update }: Props) {
  return (
    <label>
      Colour by{' '}
      <select
        id={id}
        value={state.colouring}
        onChange={(event) => update({ colouring: event.currentTarget.value as ViewState['colouring'] })}
      >
        {COLOURINGS.map((name) => (
          <option key={name} value={name}>
            {{ site: 'call site', category: 'kind of work', stream: 'stream', pool: 'pool' }[name]}
          </option>
        ))}
      </select>
    </label>
  );
}
