// The size of an element as it changes. Must not know what is in it.

import { useEffect, useState } from 'preact/hooks';

/** The size of an element in its own pixels, as it changes. */
export function useSize(element: { readonly current: HTMLElement | null }): {
  readonly width: number;
  readonly height: number;
} {
  const [size, setSize] = useState({ width: 0, height: 0 });
  useEffect(() => {
    if (element.current === null) return;
    const observer = new ResizeObserver(([entry]) => {
      if (entry !== undefined)
        setSize({ width: Math.floor(entry.contentRect.width), height: Math.floor(entry.contentRect.height) });
    });
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return size;
}
