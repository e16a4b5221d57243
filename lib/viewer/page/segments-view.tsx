// The segments view. To be written.

import type { ViewProps } from './view-props.js';

export function SegmentsView(_: ViewProps) {
  return <p>segments</p>;
}
