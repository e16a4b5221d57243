// What the memory of a device consists of, as one bar to scale; each part leads to where it lies. The same numbers stand in the table below.

import { formatSize } from '../../units.js';
import type { MemoryPart, PartName } from '../diagnosis/memory-parts.js';
import { mixed, type Palette } from '../palette.js';
import { StateLink } from './diagnosis-link.js';
import type { ViewState } from './store.js';
import type { ViewProps } from './view-props.js';

/** Where a part of the memory can be seen; null: nowhere. */
export function partPlace(name: PartName): Partial<ViewState> | null {
  switch (name) {
    case 'requested':
    case 'rounding':
      return { view: 'holders', cursor: null };
    case 'unreserved':
      return null;
    default:
      return { view: 'segments', cursor: null, highlight: name };
  }
}

export function partColour(name: PartName, palette: Palette): string {
  const colours: Readonly<Record<PartName, string>> = {
    requested: mixed(palette.accent, palette.background, 0.35),
    rounding: mixed(palette.accent, palette.background, 0.65),
    pending: palette.pending,
    other_stream: palette.others,
    wholly_free: palette.whollyFree,
    stuck: palette.stuck,
    unreserved: palette.background,
  };
  return colours[name];
}

export function GapBar(props: ViewProps & { readonly parts: readonly MemoryPart[] }) {
  const { parts, palette } = props;
  const whole = Math.max(
    1,
    parts.reduce((sum, { bytes }) => sum + bytes, 0),
  );
  return (
    <div class="gap-bar" id="gap-bar">
      {parts.map(({ name, bytes, label, meaning }) => {
        if (bytes === 0) return null;
        const place = partPlace(name);
        const text = `${label} ${formatSize(bytes)}`;
        const style = { width: `${(100 * bytes) / whole}%`, background: partColour(name, palette) };
        return (
          <div key={name} data-part={name} data-bytes={bytes} style={style} title={`${text}: ${meaning}`}>
            {place === null ? (
              <span>{text}</span>
            ) : (
              <StateLink {...props} to={place}>
                {text}
              </StateLink>
            )}
          </div>
        );
      })}
    </div>
  );
}
