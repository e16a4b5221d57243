// A call stack as a list, innermost first. Must not know whose it is.

import type { Frame } from '../../snapshot/model.js';

export function StackList({ frames }: { readonly frames: readonly Frame[] }) {
  return (
    <ol class="stack">
      {frames.map(({ name, filename, line }, i) => (
        <li key={i}>
          {name}{' '}
          <span class="faint">
            {filename}:{String(line)}
          </span>
        </li>
      ))}
    </ol>
  );
}
