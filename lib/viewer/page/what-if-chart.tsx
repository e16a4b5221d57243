// The recorded course and replayed ones over each other, along the recorded events. What it shows stands in the table below it.

import { useEffect, useMemo, useRef } from 'preact/hooks';
import UPlot from 'uplot';
import { type Course, courseOfBytes } from '../../analysis/replay/course.js';
import { formatSize } from '../../units.js';
import type { Palette } from '../palette.js';
import { byteTicks } from '../timeline/ticks.js';
import type { WhatIfAnswer } from '../what-if.js';
import { useSize } from './use-size.js';
import type { ViewProps } from './view-props.js';

const HEIGHT = 280;
/** A device so many times as large as what is used would flatten the picture. */
const TALLEST_DEVICE = 2.5;

type Props = ViewProps & { readonly answer: WhatIfAnswer | null };

export function WhatIfChart(props: Props) {
  const { history, answer, palette, capacity } = props;
  const frame = useRef<HTMLDivElement>(null);
  const { width } = useSize(frame);
  const recorded = useMemo(
    () => courseOfBytes(history.lifetimes.allocated, history.lifetimes.reserved),
    [history.lifetimes],
  );
  const limit = answer === null ? capacity : answer.question.capacity;
  useEffect(() => {
    if (frame.current === null || width === 0) return;
    const chart = chartOf(frame.current, { width, recorded, answer, limit, palette });
    return () => chart.destroy();
  }, [width, recorded, answer, limit, palette]);
  return (
    <div
      class="chart"
      ref={frame}
      id="what-if-chart"
      role="img"
      aria-label={describe(recorded, answer, limit)}
      data-points={recorded.moments.length}
    />
  );
}

function describe(recorded: Course, answer: WhatIfAnswer | null, limit: number | null): string {
  const highest = formatSize(recorded.reserved.reduce((most, bytes) => Math.max(most, bytes), 0));
  const replayed =
    answer === null
      ? ''
      : `, replayed under ${answer.tried.conf || 'the defaults'} at most ${formatSize(answer.tried.peakReserved)}`;
  const device = limit === null ? '' : `, the device has ${formatSize(limit)}`;
  return `Memory over the events: recorded at most ${highest} reserved${replayed}${device}`;
}

interface Picture {
  readonly width: number;
  readonly recorded: Course;
  readonly answer: WhatIfAnswer | null;
  readonly limit: number | null;
  readonly palette: Palette;
}

function chartOf(frame: HTMLElement, { width, recorded, answer, limit, palette }: Picture): UPlot {
  const highest = (bytes: Float64Array): number => bytes.reduce((most, value) => Math.max(most, value), 0);
  const tallest = Math.max(highest(recorded.reserved), answer === null ? 0 : highest(answer.tried.reserved));
  const shown = limit !== null && limit <= TALLEST_DEVICE * tallest ? limit : null;
  const axis = { stroke: palette.faintInk, grid: { stroke: palette.grid }, ticks: { stroke: palette.grid } };
  const lines = linesOf({ recorded, answer, palette, limit: shown });
  const options: UPlot.Options = {
    width,
    height: HEIGHT,
    scales: { x: { time: false }, y: { range: (_, __, max) => [0, Math.max(1, max * 1.06)] } },
    axes: [
      { ...axis, values: (_, moments) => moments.map((moment) => (moment < 0 ? '' : moment.toLocaleString('en'))) },
      {
        ...axis,
        size: 78,
        splits: (_, __, from, to) => byteTicks(from, to, 6).map(({ value }) => value),
        values: (plot, values) => {
          const { max = 1 } = plot.scales.y ?? {};
          const texts = new Map(byteTicks(0, max, 6).map(({ value, text }) => [value, text]));
          return values.map((value) => texts.get(value) ?? formatSize(value));
        },
      },
    ],
    series: [
      { label: 'After event', value: (_, moment) => (moment === null ? '' : moment.toLocaleString('en')) },
      ...lines.map(({ series }) => series),
    ],
    hooks: { draw: [(plot) => markFailures(plot, answer, palette)] },
  };
  return new UPlot(options, [recorded.moments, ...lines.map(({ bytes }) => bytes)] as UPlot.AlignedData, frame);
}

interface Line {
  readonly series: UPlot.Series;
  readonly bytes: Float64Array;
}

function linesOf({
  recorded,
  answer,
  palette,
  limit,
}: Pick<Picture, 'recorded' | 'answer' | 'palette' | 'limit'>): Line[] {
  const line = (label: string, stroke: string, bytes: Float64Array, more: Partial<UPlot.Series> = {}): Line => ({
    series: {
      label,
      stroke,
      width: 1.5,
      points: { show: false },
      value: (_, value) => (value === null ? '' : formatSize(value)),
      ...more,
    },
    bytes,
  });
  const tint = (colour: string): string => `${colour}38`;
  const tried = palette.series[5] as string;
  const lines = [
    line('allocated, recorded', palette.accent, recorded.allocated, { width: 1, fill: tint(palette.accent) }),
    line('reserved, recorded', palette.reserved, recorded.reserved),
  ];
  if (answer !== null) {
    const dashed = { dash: [5, 4] };
    // Where they are one line the recording says it all.
    if (answer.baseline.conf !== answer.tried.conf || answer.baseline.policy !== answer.tried.policy)
      lines.push(line('reserved, recorded settings replayed', palette.others, answer.baseline.reserved, dashed));
    lines.push(line('reserved, these settings replayed', tried, answer.tried.reserved, { width: 2 }));
  }
  if (limit !== null) {
    const level = new Float64Array(recorded.moments.length).fill(limit);
    lines.push(line('device', palette.capacity, level, { dash: [8, 4] }));
  }
  return lines;
}

/** A mark at the foot of the picture where a replayed request ran out of memory. */
function markFailures({ ctx, bbox, valToPos }: UPlot, answer: WhatIfAnswer | null, palette: Palette): void {
  if (answer === null) return;
  const size = 5 * devicePixelRatio;
  const foot = bbox.top + bbox.height;
  ctx.save();
  ctx.fillStyle = palette.outOfMemory;
  for (const event of answer.tried.failures) {
    const x = valToPos(event, 'x', true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, foot - 2 * size);
    ctx.lineTo(x - size, foot);
    ctx.lineTo(x + size, foot);
    ctx.fill();
  }
  ctx.restore();
}
