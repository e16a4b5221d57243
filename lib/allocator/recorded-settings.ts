// The settings in force as a snapshot records them. Must not know what is made of them; analysis/recorded-config.ts reads them back.

import type { Device } from '../device/types.js';
import { ConfigError } from '../errors.js';
import type { PyDict, PyValue } from '../snapshot/model.js';
import type { Config } from './config.js';
import { formatConfig } from './format-config.js';
import type { Policy } from './policy.js';

/**
 * `allocator_settings` of a snapshot: PyTorch's keys in its order, then those it has added since, and under `cudalloc` what PyTorch has no
 * word for. Sizes are bytes. The settings string is that of the settings in force.
 */
export function recordedSettings(config: Config, policy: Policy, device: Device): PyDict {
  const { maxSplitSize, roundupPower2Divisions } = config;
  const settings: [string, PyValue][] = [
    ['PYTORCH_CUDA_ALLOC_CONF', textOf(config)],
    ['max_split_size', Number.isFinite(maxSplitSize) ? maxSplitSize : -1],
    ['garbage_collection_threshold', config.garbageCollectionThreshold],
    ['expandable_segments', config.expandableSegments],
    ['pinned_num_register_threads', config.pinnedNumRegisterThreads],
    ['release_lock_on_cudamalloc', config.releaseLockOnCudaMalloc],
    ['pinned_use_cuda_host_register', config.pinnedUseCudaHostRegister],
    ['graph_capture_record_stream_reuse', config.graphCaptureRecordStreamReuse],
    ['roundup_power2_divisions', new Map(roundupPower2Divisions.map((divisions, at) => [String(2 ** at), divisions]))],
    ['large_segment_size', config.largeSegmentSize],
    ['max_non_split_rounding_size', config.maxNonSplitRounding],
    ['per_process_memory_fraction', config.perProcessMemoryFraction],
    ['expandable_segments_page_size', config.expandableSegmentsPageSize],
    [
      'cudalloc',
      new Map<string, PyValue>([
        ['policy', policy.name],
        ['backend', device.backend],
        ['total_memory', device.totalMemory],
      ]),
    ],
  ];
  return new Map(settings);
}

function textOf(config: Config): string {
  try {
    return formatConfig(config);
  } catch (error) {
    // Sizes that are no whole MiB were not given as a string, and there is none that says them.
    if (error instanceof ConfigError) return '';
    throw error;
  }
}
