// The holders view. To be written.

import type { ViewProps } from './view-props.js';

export function HoldersView(_: ViewProps) {
  return <p>holders</p>;
}
