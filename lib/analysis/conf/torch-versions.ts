// Which PyTorch version knows which option: a table of facts with their sources, and questions to it. Must not know how settings are parsed.
//
// For each option the newest release known to be without it and the oldest known to have it; what lies between was not verified and is
// called so. Sources are the pull request that brought it, with its dates against those of the releases, issue reports of refused
// options, and for 2.4 its source.

/** A release: major and minor. */
export interface TorchVersion {
  readonly major: number;
  readonly minor: number;
}

export interface OptionVersions {
  readonly option: string;
  /** The newest release known to refuse it; null: it was there when settings strings came. */
  readonly lastWithout: string | null;
  /** The oldest release known to accept it; null where none is known yet. */
  readonly firstWith: string | null;
  /** The first release that refuses it again; null: it is still there. */
  readonly removedIn: string | null;
  /** Where the fact comes from. */
  readonly source: string;
}

/** Settings strings exist since this release. */
export const FIRST_TORCH = '1.10';

export const OPTION_VERSIONS: readonly OptionVersions[] = [
  option('max_split_size_mb', null, '1.10', 'pytorch/pytorch#44742'),
  option('roundup_power2_divisions', '1.11', '1.12', 'pytorch/pytorch#74213, opened after the release of 1.11'),
  option('garbage_collection_threshold', '1.11', '1.12', 'pytorch/pytorch#74261, opened after the release of 1.11'),
  {
    ...option('roundup_bypass_threshold_mb', '1.12', null, 'pytorch/pytorch#85940, replaced by the list form (#87290)'),
    removedIn: '2.0',
  },
  option('backend', '1.12', '2.0', 'pytorch/pytorch#82682, opened after 1.12; in use with 2.0 (#104891)'),
  option('expandable_segments', '2.0', '2.1', 'pytorch/pytorch#96995; refused by 2.0.1 (deepseek-ai/DeepSeek-VL2#103)'),
  option('release_lock_on_cudamalloc', '2.0', '2.3', 'pytorch/pytorch#108367; there before 2.3 (#119404)'),
  option('pinned_use_cuda_host_register', '2.1', '2.3', 'pytorch/pytorch#108488; there before 2.3 (#119404)'),
  option('pinned_num_register_threads', '2.1', '2.3', 'pytorch/pytorch#108488; there before 2.3 (#119404)'),
  option(
    'max_non_split_rounding_mb',
    '2.4',
    '2.9',
    'pytorch/pytorch#136174, opened after 2.4; in the shared allocator settings of 2.9',
  ),
  option('pinned_use_background_threads', '2.4', '2.8', 'source of 2.4; in use before 2.8 (pytorch/pytorch#152008)'),
  option('pinned_max_register_threads', '2.4', null, 'source of 2.4'),
  option(
    'graph_capture_record_stream_reuse',
    '2.8',
    null,
    'pytorch/pytorch#158352, under review after the release of 2.8',
  ),
  option('per_process_memory_fraction', '2.8', null, 'pytorch/pytorch#161035, opened after the release of 2.8'),
  option('pinned_reserve_segment_size_mb', '2.8', null, 'pytorch/pytorch#164501, opened in October 2025'),
  option('large_segment_size_mb', '2.9', null, 'pytorch/pytorch#172056, opened in January 2026'),
  option('throw_on_cudamalloc_oom', '2.10', null, 'pytorch/pytorch#179473, opened after the release of 2.10'),
  option('expandable_segments_page_size', '2.10', null, "PyTorch's devlog of June 2026"),
];

function option(name: string, lastWithout: string | null, firstWith: string | null, source: string): OptionVersions {
  return { option: name, lastWithout, firstWith, removedIn: null, source };
}

/** A form of an option's value that came later than the option. */
export const LIST_OF_DIVISIONS: OptionVersions = option(
  'roundup_power2_divisions:[size:divisions,...]',
  '1.13',
  '2.0',
  'pytorch/pytorch#87290, opened after 1.13 was cut',
);

/** `2.1`, `2.1.0`, `v2.1.0+cu121`, `2.9.1`; null for anything else, and before 1.10. */
export function parseTorchVersion(text: string): TorchVersion | null {
  const match = /^v?(\d+)\.(\d+)(?:[.+-].*)?$/.exec(text.trim());
  if (match === null) return null;
  const version = { major: Number(match[1]), minor: Number(match[2]) };
  return isBefore(version, FIRST_TORCH) ? null : version;
}

export type OptionStatus = 'accepted' | 'refused' | 'not verified';

/** Whether a release accepts an option. */
export function optionStatus(entry: OptionVersions, version: TorchVersion): OptionStatus {
  const { lastWithout, firstWith, removedIn } = entry;
  if (removedIn !== null && !isBefore(version, removedIn)) return 'refused';
  if (lastWithout !== null && !isAfter(version, lastWithout)) return 'refused';
  return firstWith !== null && !isBefore(version, firstWith) ? 'accepted' : 'not verified';
}

/** When an option came, in words: `2.1 or later`, `later than 2.9 (not verified from which release on)`. */
export function sinceWhen({ lastWithout, firstWith, removedIn }: OptionVersions): string {
  if (removedIn !== null) return `releases between ${lastWithout} and ${removedIn} only (not verified)`;
  if (firstWith === null) return `later than ${lastWithout} (not verified from which release on)`;
  if (lastWithout === null || follows(lastWithout, firstWith)) return `${firstWith} or later`;
  return `${firstWith} or later (earlier ones after ${lastWithout} not verified)`;
}

export function optionVersions(name: string): OptionVersions | undefined {
  return OPTION_VERSIONS.find((entry) => entry.option === name);
}

/** What else depends on the release. */
export function versionNotes(version: TorchVersion, options: ReadonlySet<string>): string[] {
  const notes: string[] = [];
  if (options.has('max_split_size_mb') && !isBefore(version, '2.9')) {
    notes.push('max_split_size_mb: up to 2.4 more than 20 is wanted; 2.10 accepts 20 itself (vllm-project/vllm#41268)');
  }
  const together = options.has('max_split_size_mb') || options.has('garbage_collection_threshold');
  if (options.has('expandable_segments') && together && isAfter(version, '2.0') && isBefore(version, '2.5')) {
    notes.push(
      'expandable_segments with max_split_size_mb or garbage_collection_threshold can stop up to 2.4 with an internal ' +
        'assertion when memory runs out (mended by pytorch/pytorch#134338)',
    );
  }
  return notes;
}

/** The environment variables that a release reads for CUDA, and what to know of them. */
export function settingsVariable(version: TorchVersion | null): { readonly name: string; readonly note: string } {
  if (version !== null && isBefore(version, '2.9')) {
    return { name: 'PYTORCH_CUDA_ALLOC_CONF', note: 'PYTORCH_ALLOC_CONF, the name since 2.9, is not read' };
  }
  return {
    name: 'PYTORCH_CUDA_ALLOC_CONF',
    note:
      'since 2.9 the name is PYTORCH_ALLOC_CONF and this one is kept; 2.9.1 was reported to ignore expandable_segments ' +
      'under the new name (pytorch/pytorch#183387)',
  };
}

function fromText(text: string): TorchVersion {
  const [major, minor] = text.split('.').map(Number);
  return { major: major as number, minor: minor as number };
}

function isBefore(version: TorchVersion, text: string): boolean {
  const other = fromText(text);
  return version.major < other.major || (version.major === other.major && version.minor < other.minor);
}

function isAfter(version: TorchVersion, text: string): boolean {
  const other = fromText(text);
  return version.major > other.major || (version.major === other.major && version.minor > other.minor);
}

/** Whether no release lies between; 2.0 followed 1.13. */
function follows(earlier: string, later: string): boolean {
  const [a, b] = [fromText(earlier), fromText(later)];
  return a.major === b.major ? b.minor === a.minor + 1 : earlier === '1.13' && later === '2.0';
}
