// The settings under which a snapshot was recorded, as a settings string. Must not know what is done with them.

import { DEFAULT_CONFIG } from '../allocator/config.js';
import type { PyDict, PyValue, Snapshot } from '../snapshot/model.js';

const MIB = 1024 * 1024;

/**
 * The settings in force when the snapshot was taken: from `allocator_settings`, its values rather than its settings string, which a call
 * of `_set_allocator_settings` leaves as it was. Empty where the file records none.
 */
export function recordedConf(snapshot: Snapshot): string {
  const settings = snapshot.extra?.get('allocator_settings');
  if (!(settings instanceof Map)) return '';
  const parts = [...OPTIONS].flatMap(([key, format]) => {
    const value = (settings as PyDict).get(key);
    const text = value === undefined ? null : format(value);
    return text === null ? [] : [text];
  });
  return parts.join(',');
}

/** By key of `allocator_settings`: the option as text, null where it is the default or of no known type. */
const OPTIONS: readonly (readonly [key: string, format: (value: PyValue) => string | null])[] = [
  ['expandable_segments', (value) => (value === true ? 'expandable_segments:True' : null)],
  ['large_segment_size', (value) => mebibytes('large_segment_size_mb', value, DEFAULT_CONFIG.largeSegmentSize)],
  ['max_split_size', (value) => mebibytes('max_split_size_mb', value, -1)],
  [
    'max_non_split_rounding_size',
    (value) => mebibytes('max_non_split_rounding_mb', value, DEFAULT_CONFIG.maxNonSplitRounding),
  ],
  [
    'garbage_collection_threshold',
    (value) => (typeof value === 'number' && value > 0 ? `garbage_collection_threshold:${value}` : null),
  ],
  [
    'per_process_memory_fraction',
    (value) => (typeof value === 'number' && value < 1 ? `per_process_memory_fraction:${value}` : null),
  ],
  ['roundup_power2_divisions', roundup],
];

function mebibytes(key: string, value: PyValue, none: number): string | null {
  if (typeof value !== 'number' || value === none || value <= 0 || value % MIB !== 0) return null;
  return `${key}:${value / MIB}`;
}

function roundup(value: PyValue): string | null {
  if (!(value instanceof Map)) return null;
  const entries = [...(value as PyDict)].filter(([, divisions]) => typeof divisions === 'number');
  if (entries.every(([, divisions]) => (divisions as number) <= 1)) return null;
  // The last interval is written as its size; the parser gives sizes above it the same.
  return `roundup_power2_divisions:[${entries.map(([size, divisions]) => `${String(size)}:${String(divisions)}`).join(',')}]`;
}
