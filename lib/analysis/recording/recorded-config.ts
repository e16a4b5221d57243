// The settings under which a snapshot was recorded, as a settings string, and the policy. Must not know what is done with them.

import { DEFAULT_CONFIG } from '../../allocator/config.js';
import { isPolicyName, type PolicyName } from '../../allocator/policy.js';
import type { PyDict, PyValue, Snapshot } from '../../snapshot/model.js';
import { MIB } from '../../units.js';

/**
 * The settings in force when the snapshot was taken: from `allocator_settings`, its values rather than its settings string, which a call
 * of `_set_allocator_settings` leaves as it was. Empty where the file records none. A size that is no whole number of MiB, which no
 * settings string can say, is left out.
 */
export function recordedConf(snapshot: Snapshot): string {
  const settings = settingsOf(snapshot);
  if (settings === null) return '';
  const parts = OPTIONS.flatMap(([key, format]) => {
    const value = settings.get(key);
    const text = value === undefined ? null : format(value, settings);
    return text === null ? [] : [text];
  });
  return parts.join(',');
}

/** The policy it was recorded under: PyTorch's, unless it is from an allocator of ours that says otherwise. */
export function recordedPolicy(snapshot: Snapshot): PolicyName {
  const own = settingsOf(snapshot)?.get(OWN);
  const name = own instanceof Map ? (own as PyDict).get('policy') : undefined;
  return typeof name === 'string' && isPolicyName(name) ? name : 'pytorch';
}

/** Bytes of the device that it was recorded on; null where the file does not say, as PyTorch's do not. */
export function recordedTotal(snapshot: Snapshot): number | null {
  const own = settingsOf(snapshot)?.get(OWN);
  const total = own instanceof Map ? (own as PyDict).get('total_memory') : undefined;
  return typeof total === 'number' && total > 0 ? total : null;
}

/** What our allocator adds to PyTorch's settings. */
const OWN = 'cudalloc';

function settingsOf(snapshot: Snapshot): PyDict | null {
  const settings = snapshot.extra?.get('allocator_settings');
  return settings instanceof Map ? (settings as PyDict) : null;
}

/** The option as text, null where it is the default or of no known type. */
type Format = (value: PyValue, settings: PyDict) => string | null;

/** By key of `allocator_settings`. */
const OPTIONS: readonly (readonly [key: string, format: Format])[] = [
  ['expandable_segments', (value) => (value === true ? 'expandable_segments:True' : null)],
  [
    'expandable_segments_page_size',
    (value) => (typeof value === 'number' && value > 0 ? `expandable_segments_page_size:${value}` : null),
  ],
  ['large_segment_size', (value) => mebibytes('large_segment_size_mb', value, DEFAULT_CONFIG.largeSegmentSize)],
  ['max_split_size', (value) => mebibytes('max_split_size_mb', value, -1)],
  [
    'max_non_split_rounding_size',
    // Left out, it follows the segment size.
    (value, settings) =>
      mebibytes(
        'max_non_split_rounding_mb',
        value,
        settings.get('large_segment_size') ?? DEFAULT_CONFIG.largeSegmentSize,
      ),
  ],
  [
    'garbage_collection_threshold',
    (value) => (typeof value === 'number' && value > 0 ? `garbage_collection_threshold:${value}` : null),
  ],
  [
    'per_process_memory_fraction',
    // PyTorch writes 1 where none is set.
    (value, settings) =>
      typeof value === 'number' && (value < 1 || settings.has(OWN)) ? `per_process_memory_fraction:${value}` : null,
  ],
  ['roundup_power2_divisions', roundup],
];

function mebibytes(key: string, value: PyValue, none: PyValue): string | null {
  if (typeof value !== 'number' || value === none || value < 0 || value % MIB !== 0) return null;
  return `${key}:${value / MIB}`;
}

function roundup(value: PyValue): string | null {
  if (!(value instanceof Map)) return null;
  const entries = [...(value as PyDict)].filter(([, divisions]) => typeof divisions === 'number');
  if (entries.every(([, divisions]) => (divisions as number) <= 1)) return null;
  // The last interval is written as its size; the parser gives sizes above it the same.
  return `roundup_power2_divisions:[${entries.map(([size, divisions]) => `${String(size)}:${String(divisions)}`).join(',')}]`;
}
