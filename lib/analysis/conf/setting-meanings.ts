// What each option does, in plain words for people. Text only: must not know values or versions.

/** By PyTorch's name. One or two sentences. */
export const SETTING_MEANINGS: Readonly<Record<string, string>> = {
  backend:
    'Which allocator PyTorch uses: its own (native) or that of CUDA (cudaMallocAsync), to which the other options do not apply.',
  expandable_segments:
    'Segments are ranges of addresses that grow page by page, instead of fixed pieces. Free memory of a stream becomes one range, so that less is stuck between blocks in use.',
  expandable_segments_page_size: 'Bytes that an expandable segment grows by.',
  max_split_size_mb:
    'Cached blocks of at least this size are never cut for smaller requests, so that large ones find them whole. It does not limit how large an allocation may be, and it is not to be set to the size of a failed request.',
  max_non_split_rounding_mb:
    'How much larger than the request a block may be that max_split_size_mb keeps whole, and still serve it.',
  large_segment_size_mb:
    'Size of the segment that is taken for requests between 1 and 10 MiB, and of the pages of expandable segments for large requests.',
  roundup_power2_divisions:
    'Rounds requests up to a fraction of a power of two, so that requests of similar size can reuse the same blocks; every block becomes somewhat larger. 1 is off.',
  garbage_collection_threshold:
    'Above this part of the allowed memory, whole segments that have lain unused for long are given back before more is asked from the device. Works only where a memory fraction is set.',
  per_process_memory_fraction:
    'The part of the device that this process may hold, as set_per_process_memory_fraction sets it.',
  throw_on_cudamalloc_oom: 'Whether the memory fraction is checked before the driver is asked.',
  graph_capture_record_stream_reuse: 'Lets blocks that several streams use be reused while a CUDA graph is captured.',
  release_lock_on_cudamalloc: 'Other threads may allocate while one waits for the driver.',
  pinned_use_cuda_host_register:
    'Pinned host memory is allocated first and registered with CUDA then. Nothing changes on the device.',
  pinned_num_register_threads: 'Threads that register pinned host memory. Nothing changes on the device.',
  pinned_max_register_threads: 'Upper limit of pinned_num_register_threads. Nothing changes on the device.',
  pinned_reserve_segment_size_mb: 'Pinned host memory that is reserved at the start. Nothing changes on the device.',
  pinned_use_background_threads:
    'Events of pinned host memory are looked after by a thread of their own. Nothing changes on the device.',
};
