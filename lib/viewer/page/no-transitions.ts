// Takes the place of d3-transition and d3-interpolate in the bundle: d3-zoom needs them to move by itself, and this page only follows the
// pointer. With the colours that they bring they would be a tenth of the page.

import { selection } from 'd3-selection';

Object.assign(selection.prototype, {
  interrupt() {
    return this;
  },
});

/** Nothing is ever under way. */
export function interrupt(): void {}

export function interpolateZoom(): never {
  throw new Error('the page has no transitions');
}
