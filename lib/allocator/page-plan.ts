// Which page goes into which slot of a hole. A pure function of the pages there are: it changes nothing, and asks nothing of the device.

import type { Stream } from '../device/types.js';
import type { Page, PagePool, Place } from '../pages/page-pool.js';
import type { PageRange } from '../pages/page-range.js';
import type { Filling } from './holes.js';

/** A slot to fill, and with what; null: a page that has yet to be made. */
export interface SlotFilling {
  readonly range: PageRange;
  readonly slot: number;
  page: Page | null;
}

export interface FillingPlan {
  readonly slots: readonly SlotFilling[];
  /** Pages that have to be made. */
  readonly missing: number;
}

/**
 * A free page that is mapped at a slot already goes there, which costs nothing. The others are taken from the same stream first, then from the
 * highest addresses: what lies low is likely to be wanted again, as the lowest place is always filled first. Linear in slots, and in free
 * pages times its logarithm.
 */
export function planFillings(fillings: readonly Filling[], pool: PagePool, stream: Stream): FillingPlan {
  const slots: SlotFilling[] = [];
  const taken = new Set<Page>();
  for (const { hole, bytes } of fillings) {
    const range = hole.segment.range as PageRange;
    const first = hole.offset / range.pageBytes;
    for (let slot = first; slot < first + bytes / range.pageBytes; slot++) {
      const page = range.placeAt(slot)?.page;
      const usable = page?.isFree === true && !taken.has(page);
      if (usable) taken.add(page);
      slots.push({ range, slot, page: usable ? page : null });
    }
  }
  const open = slots.filter(({ page }) => page === null);
  if (open.length === 0) return { slots, missing: 0 };
  const pageBytes = (open[0] as SlotFilling).range.pageBytes;
  const others = preferred(pool.free(pageBytes), stream).filter((page) => !taken.has(page));
  open.forEach((filling, i) => {
    filling.page = others[i] ?? null;
  });
  return { slots, missing: Math.max(0, open.length - others.length) };
}

/** Free pages in the order in which they are best taken away from where they are. */
export function preferred(pages: ReadonlySet<Page>, stream: Stream): Page[] {
  return [...pages].sort((a, b) => rank(a, stream) - rank(b, stream) || height(b) - height(a));
}

function rank(page: Page, stream: Stream): number {
  return page.stream === stream ? 0 : 1;
}

function height({ home }: Page): number {
  const { range, slot } = home as Place;
  return range.address + slot * range.pageBytes;
}
