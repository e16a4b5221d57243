// Wheel, drag and pinch on the timeline, by d3-zoom, as changes of the part that is shown. Must not know what is drawn.

import { select } from 'd3-selection';
import { type D3ZoomEvent, type ZoomBehavior, zoom, zoomIdentity, zoomTransform } from 'd3-zoom';
import { useEffect, useRef } from 'preact/hooks';
import type { DeviceHistory } from '../device-history.js';
import { type Axis, eventAxis, timeAxis, wholeSpan } from '../timeline/axis.js';
import type { TimelinePicture } from '../timeline/drawing.js';
import { FEWEST_SHOWN, spanOf } from './keys.js';
import type { Update, ViewState } from './store.js';
import { MARGIN } from './timeline-decorations.js';

interface Options {
  readonly history: DeviceHistory;
  readonly state: ViewState;
  readonly update: Update;
  readonly picture: { readonly current: TimelinePicture | null };
  readonly width: number;
  readonly height: number;
}

/** Steps of the wheel upwards are this much closer. */
const WHEEL = 0.002;

export function useZoom(canvas: { readonly current: HTMLCanvasElement | null }, options: Options): void {
  const latest = useRef(options);
  latest.current = options;
  const behaviour = useRef<ZoomBehavior<HTMLCanvasElement, unknown> | null>(null);
  const dragged = useRef(0);
  const own = useRef(false);

  useEffect(() => {
    const element = canvas.current;
    if (element === null) return;
    const zoomed = (event: D3ZoomEvent<HTMLCanvasElement, unknown>): void => {
      // What the page sets itself it has already. While a gesture lasts, d3 gives such a change the gesture's event.
      if (own.current || event.sourceEvent === null) return;
      const { history, width, state, update } = latest.current;
      const base = baseAxis(latest.current);
      // d3 counts from the edge of the canvas, axes from that of the picture.
      const { k, x, y } = event.transform;
      const from = base.momentAt((MARGIN.left - x) / k - MARGIN.left);
      const to = base.momentAt((MARGIN.left + width - x) / k - MARGIN.left);
      const whole = k <= 1 && Math.abs(from - wholeSpan(history).from) < 1e-6;
      const moved = y - dragged.current;
      dragged.current = y;
      const isDrag = event.sourceEvent.type === 'mousemove' || event.sourceEvent.type === 'pointermove';
      update({
        ...(whole ? { from: null, to: null } : { from, to }),
        ...(isDrag && state.top !== null ? shifted(latest.current, moved) : {}),
      });
    };
    const zooming = zoom<HTMLCanvasElement, unknown>()
      .filter((event: MouseEvent | WheelEvent) => !event.button && !(event.type === 'wheel' && event.shiftKey))
      .on('start', (event: D3ZoomEvent<HTMLCanvasElement, unknown>) => {
        dragged.current = event.transform.y;
      })
      .on('zoom', zoomed);
    behaviour.current = zooming;
    select(element).call(zooming).on('dblclick.zoom', null);
    const wheel = (event: WheelEvent): void => {
      if (!event.shiftKey) return;
      event.preventDefault();
      latest.current.update(heightsAround(latest.current, event));
    };
    element.addEventListener('wheel', wheel, { passive: false });
    return () => {
      select(element).on('.zoom', null);
      element.removeEventListener('wheel', wheel);
    };
  }, []);

  // What keys, links and the address say is where the next gesture begins.
  const { history, state, width } = options;
  const span = spanOf(history, state);
  useEffect(() => {
    const element = canvas.current;
    const zooming = behaviour.current;
    if (element === null || zooming === null || width <= 1) return;
    const base = baseAxis(latest.current);
    const [left, right] = [base.xOf(span.from), base.xOf(span.to)];
    const k = Math.max(1, width / (right - left));
    const closest = (history.events + 1) / FEWEST_SHOWN;
    const end = MARGIN.left + width;
    zooming
      .extent([
        [MARGIN.left, 0],
        [end, 1],
      ])
      .translateExtent([
        [MARGIN.left, Number.NEGATIVE_INFINITY],
        [end, Number.POSITIVE_INFINITY],
      ])
      .scaleExtent([1, Math.max(1, state.axis === 'time' ? closest * 1000 : closest)]);
    const current = zoomTransform(element);
    const x = MARGIN.left - k * (left + MARGIN.left);
    if (Math.abs(current.k - k) < 1e-9 * k && Math.abs(current.x - x) < 1e-3) return;
    own.current = true;
    select(element).call(zooming.transform, zoomIdentity.translate(x, current.y).scale(k));
    own.current = false;
  }, [history, width, state.axis, span.from, span.to]);
}

function baseAxis({ history, state, width }: Options): Axis {
  const whole = wholeSpan(history);
  return state.axis === 'time' && history.times !== null
    ? timeAxis(whole, width, history.times)
    : eventAxis(whole, width);
}

/** The bytes under the pointer stay where they are. */
function heightsAround({ picture, height }: Options, { offsetY, deltaY, deltaX }: WheelEvent): Partial<ViewState> {
  if (picture.current === null) return {};
  const { bottom, top } = picture.current.heights;
  // With Shift some systems turn the wheel sideways.
  const factor = 2 ** ((deltaY || deltaX) * WHEEL);
  const under = top - ((offsetY - MARGIN.top) / height) * (top - bottom);
  const least = under - (under - bottom) * factor;
  const most = under + (top - under) * factor;
  const highest = picture.current.reserved.reduce((a, b) => Math.max(a, b), 0) * 1.1;
  if (least <= 0 && most >= highest) return { bottom: null, top: null };
  return { bottom: Math.max(0, Math.round(least)), top: Math.round(Math.max(most, Math.max(0, least) + 1024)) };
}

function shifted({ picture, height }: Options, pixels: number): Partial<ViewState> {
  if (picture.current === null) return {};
  const { bottom, top } = picture.current.heights;
  const by = Math.max(-bottom, (pixels / height) * (top - bottom));
  return { bottom: Math.round(bottom + by), top: Math.round(top + by) };
}
