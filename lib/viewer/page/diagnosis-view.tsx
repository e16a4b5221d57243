// The diagnosis view. To be written.

import type { ViewProps } from './view-props.js';

export function DiagnosisView(_: ViewProps) {
  return <p>diagnosis</p>;
}
