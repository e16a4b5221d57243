// What lies under the pointer, beside it, within the window. For the eye only: what it says is also in tables and details.

import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

const DISTANCE = 14;

interface Props {
  /** In the element that it is in. */
  readonly x: number;
  readonly y: number;
  readonly children: ComponentChildren;
}

export function Tooltip({ x, y, children }: Props) {
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const tip = element.current;
    const around = tip?.parentElement?.getBoundingClientRect();
    if (!tip || around === undefined) return;
    const fitsRight = around.left + x + DISTANCE + tip.offsetWidth < innerWidth;
    const fitsBelow = around.top + y + DISTANCE + tip.offsetHeight < innerHeight;
    tip.style.left = `${fitsRight ? x + DISTANCE : Math.max(-around.left, x - DISTANCE - tip.offsetWidth)}px`;
    tip.style.top = `${fitsBelow ? y + DISTANCE : Math.max(-around.top, y - DISTANCE - tip.offsetHeight)}px`;
  });
  return (
    <div class="tooltip" ref={element} aria-hidden="true">
      {children}
    </div>
  );
}
