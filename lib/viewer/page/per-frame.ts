// A value that follows another once a frame: what is drawn of it takes longer than its changes come. Must not know what it is.

import { useLayoutEffect, useState } from 'preact/hooks';

/** @param of what the value belongs to: when that changes, the value does at once */
export function usePerFrame<T>(value: T, of: unknown): T {
  const [shown, setShown] = useState({ value, of });
  const isCurrent = shown.of === of && Object.is(shown.value, value);
  useLayoutEffect(() => {
    if (isCurrent) return;
    const frame = requestAnimationFrame(() => setShown({ value, of }));
    return () => cancelAnimationFrame(frame);
  }, [value, of, isCurrent]);
  return shown.of === of ? shown.value : value;
}
