// A number that leads to what it counts: a link within the page, which can be opened beside it and copied like any other.

import type { ComponentChildren } from 'preact';
import { formatState, type ViewState } from './store.js';
import type { ViewProps } from './view-props.js';

interface Props extends Pick<ViewProps, 'state' | 'update'> {
  /** What changes; what is pointed out now is not any more. */
  readonly to: Partial<ViewState>;
  readonly children: ComponentChildren;
  readonly id?: string;
  readonly title?: string;
}

export function StateLink({ state, update, to, children, id, title }: Props) {
  const patch: Partial<ViewState> = { pinned: null, highlight: null, address: null, ...to };
  return (
    <a
      href={`#${formatState({ ...state, ...patch })}`}
      {...(id === undefined ? {} : { id })}
      {...(title === undefined ? {} : { title })}
      onClick={(event) => {
        // With a key the browser opens it elsewhere.
        if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
        event.preventDefault();
        update(patch);
      }}
    >
      {children}
    </a>
  );
}
