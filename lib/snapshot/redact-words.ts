// The words that a redacted snapshot keeps, because programs wrote them and not people: keys, states and settings of PyTorch and of this
// package. Anything else could name a person, a path or a project.

import { ACTIONS, BLOCK_LAYOUT, EVENT_LAYOUT, FRAME_LAYOUT, SEGMENT_LAYOUT, SNAPSHOT_LAYOUT } from './model.js';

/** Keys that some version of PyTorch, or this package, writes. */
const KEYS: ReadonlySet<string> = new Set([
  ...SNAPSHOT_LAYOUT,
  ...SEGMENT_LAYOUT,
  ...BLOCK_LAYOUT,
  ...EVENT_LAYOUT,
  ...FRAME_LAYOUT,
  ...['history', 'real_size', 'device_free', 'traces', 'category', 'compile_context', 'user_metadata', 'pool_id'],
  ...['internal_metadata', 'forward_frames', 'fx_node_op', 'fx_node_name', 'fx_original_trace', 'version', 'stage'],
  ...['PYTORCH_CUDA_ALLOC_CONF', 'PYTORCH_ALLOC_CONF', 'last_allocator_settings', 'max_split_size', 'backend'],
  ...['garbage_collection_threshold', 'expandable_segments', 'expandable_segments_page_size', 'large_segment_size'],
  ...['pinned_num_register_threads', 'pinned_max_register_threads', 'pinned_use_cuda_host_register'],
  ...['pinned_use_background_threads', 'pinned_reserve_segment_size', 'release_lock_on_cudamalloc'],
  ...['graph_capture_record_stream_reuse', 'roundup_power2_divisions', 'max_non_split_rounding_size'],
  ...['per_process_memory_fraction', 'throw_on_cudamalloc_oom', 'trace_alloc_overflowed', 'trace_alloc_max_entries'],
  ...['cudalloc', 'policy', 'total_memory', 'request'],
]);

const WORDS: ReadonlySet<string> = new Set([
  '',
  'N/A',
  '??',
  ...ACTIONS,
  ...[
    'free',
    'annotate',
    'user_defined',
    'active_allocated',
    'active_pending_free',
    'active_awaiting_free',
    'inactive',
  ],
  ...['small', 'large', 'START', 'END', 'unknown', 'native', 'cudaMallocAsync', 'pytorch', 'default', 'paged'],
  ...['sim', 'mock', 'cuda'],
]);

/** Settings that a string may hold, by what their value may look like. None has room for a text. */
const NUMBER = String.raw`\d+(?:\.\d+)?`;
const INTERVALS = String.raw`\[(?:(?:\d+|>):\d+,?)+\]`;
const VALUE = `(?:True|False|native|cudaMallocAsync|${NUMBER}|${INTERVALS})`;
const OPTIONS = [
  'backend|expandable_segments|expandable_segments_page_size_mb|garbage_collection_threshold|graph_capture_record_stream_reuse',
  'large_segment_size_mb|max_non_split_rounding_mb|max_split_size_mb|per_process_memory_fraction|pinned_max_register_threads',
  'pinned_num_register_threads|pinned_reserve_segment_size_mb|pinned_use_background_threads|pinned_use_cuda_host_register',
  'release_lock_on_cudamalloc|release_lock_on_hipmalloc|roundup_power2_divisions|throw_on_cudamalloc_oom',
].join('|');
const SETTING = `(?:${OPTIONS}):${VALUE}`;
const SETTINGS = new RegExp(`^${SETTING}(?:,${SETTING})*,?$`);
/** Sizes in MiB are keys of `roundup_power2_divisions`. */
const SHORT_NUMBER = /^\d{1,6}$/;

export function isKnownKey(key: string): boolean {
  return KEYS.has(key) || SHORT_NUMBER.test(key);
}

/** Whether a text is one of the words, or a settings string of known options with plain values. */
export function isKnownText(text: string): boolean {
  return WORDS.has(text) || SETTINGS.test(text);
}
