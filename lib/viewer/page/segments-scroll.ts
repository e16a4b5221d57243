// Which part of the address map is seen: scrolled by hand, kept where it was when the scale changes, brought to what is pointed out. Must not
// know what is drawn.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { type MapLayout, PITCH } from '../segments/layout.js';

interface Anchor {
  readonly address: number;
  /** Where its line is in the part that is seen. */
  readonly y: number;
}

/** A gesture at one place: what was there when it began stays, although lines break elsewhere at every step. */
interface Held extends Anchor {
  readonly pointer: { readonly x: number; readonly y: number };
  /** Where it has scrolled to; elsewhere people have scrolled since. */
  scrolled: number;
}

interface Scroll {
  /** First row of pixels that is seen. */
  readonly top: number;
  readonly onScroll: () => void;
  /** What is at this place stays there when the layout next changes; without it, what is in the middle does. */
  readonly keep: (x: number, y: number) => void;
}

/** @param address is brought into sight when it changes */
export function useMapScroll(
  element: { readonly current: HTMLElement | null },
  layout: MapLayout | null,
  address: number | null,
): Scroll {
  const [top, setTop] = useState(0);
  const held = useRef<Held | null>(null);
  const isHeld = useRef(false);
  const before = useRef<MapLayout | null>(null);
  const follow = (): void => setTop(Math.round(element.current?.scrollTop ?? 0));
  useLayoutEffect(() => {
    const scroller = element.current;
    const old = before.current;
    before.current = layout;
    if (scroller === null || layout === null) return;
    const middle = scroller.clientHeight / 2;
    const kept = isHeld.current ? held.current : anchorAt(old, scroller, 0, middle);
    isHeld.current = false;
    // At first there is nothing to keep.
    if (old !== null && kept !== null) scroller.scrollTop = layout.lineOf(kept.address) * PITCH - kept.y;
    if (kept !== null && kept === held.current) held.current.scrolled = scroller.scrollTop;
    follow();
  }, [layout]);
  useEffect(() => {
    const scroller = element.current;
    if (scroller === null || layout === null || address === null) return;
    const y = layout.lineOf(address) * PITCH;
    if (y < scroller.scrollTop || y + PITCH > scroller.scrollTop + scroller.clientHeight)
      scroller.scrollTop = y - scroller.clientHeight / 2;
    follow();
  }, [address, layout === null]);
  return {
    top,
    onScroll: follow,
    keep: (x, y) => {
      const scroller = element.current;
      if (scroller === null) return;
      const before = held.current;
      const goesOn =
        before?.pointer.x === x && before.pointer.y === y && Math.abs(before.scrolled - scroller.scrollTop) < 2;
      const anchor = goesOn ? before : anchorAt(layout, scroller, x, y);
      held.current = anchor === null ? null : { ...anchor, pointer: { x, y }, scrolled: scroller.scrollTop };
      isHeld.current = held.current !== null;
    },
  };
}

function anchorAt(layout: MapLayout | null, { scrollTop }: HTMLElement, x: number, y: number): Anchor | null {
  const address = layout?.addressAt(x, scrollTop + y) ?? null;
  // Of its line, not of the pointer: otherwise each step would move it by a part of a line.
  return address === null || layout === null ? null : { address, y: layout.lineOf(address) * PITCH - scrollTop };
}
