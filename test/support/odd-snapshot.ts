// A snapshot with everything that a file may hold and the model has no field for: writers must keep it all.

import {
  DeviceTraceBuilder,
  FREE_COMPLETED,
  FREE_REQUESTED,
  OOM,
  type PyValue,
  SEGMENT_ALLOC,
  type Snapshot,
  StackTable,
  Tuple,
} from '../../lib/snapshot/model.js';

export const ODD_VALUES: readonly PyValue[] = [
  null,
  true,
  false,
  0,
  -1,
  0.5,
  -0,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  2 ** 53 - 1,
  2n ** 64n - 1n,
  -(2n ** 63n),
  -(2n ** 200n),
  1e300,
  '',
  'plain',
  'quote " backslash \\ line\nfeed',
  'Grüße 漢字 🙂',
  'half \ud83d pair',
  'x'.repeat(300),
  Uint8Array.from([0, 1, 254, 255]),
  new Uint8Array(300).fill(7),
  new Tuple([]),
  new Tuple([1]),
  new Tuple([1, 'two', new Tuple([3, [4]])]),
  new Tuple([1, 2, 3, 4, 5]),
  [],
  [1, [2, ['three']]],
  new Map(),
  new Map<PyValue, PyValue>([
    ['2', 'text keys keep their order'],
    ['1', 'though JavaScript objects would not'],
    [3, null],
    ['__proto__', 'no prototype'],
    [new Tuple([1, 2]), 'a tuple as key'],
  ]),
];

export function oddSnapshot(): Snapshot {
  const stacks = new StackTable();
  const plain = stacks.internFrame({ name: 'main', filename: '/home/someone/train.py', line: 12 });
  const odd = stacks.internFrame({
    name: 'forward',
    filename: '',
    line: 2n ** 64n - 1n,
    layout: ['filename', 'name', 'line', 'fx_node_op'],
    extra: new Map<string, PyValue>([
      ['filename', null],
      ['fx_node_op', 'call_function'],
    ]),
  });
  const stack = stacks.intern([odd, plain, plain], 3);
  const other = stacks.intern([plain], 1);
  const trace = new DeviceTraceBuilder();
  const full = trace.layout(['action', 'addr', 'size', 'stream', 'time_us', 'compile_context', 'frames']);
  const short = trace.layout(['size', 'action', 'addr', 'surprise']);
  const oom = trace.layout(['action', 'device_free', 'size', 'stream', 'time_us', 'frames']);
  const first = trace.push(SEGMENT_ALLOC, 0x7f00_0000_0000, 2 ** 21, 7, 1_700_000_000_000_000, stack);
  trace.setLayout(first, full);
  trace.setExtra(first, 'compile_context', 'N/A');
  const second = trace.push(trace.actionCode('annotate'), 0, 512, 0, Number.NaN, 0);
  trace.setLayout(second, short);
  trace.setOdd(second, 'addr', 2n ** 60n);
  trace.setExtra(second, 'surprise', ODD_VALUES);
  trace.setLayout(trace.push(OOM, 4096, 2 ** 30, 7, 1_700_000_000_000_009, other), oom);
  for (const action of [FREE_REQUESTED, FREE_COMPLETED]) {
    const event = trace.push(action, 0x7f00_0000_0200, 100, 7, 1_700_000_000_000_010, stack);
    trace.setLayout(event, full);
    trace.setExtra(event, 'compile_context', new Map<PyValue, PyValue>([['graph', 3]]));
  }
  const extra = new Map<string, PyValue>([
    ['allocator_settings', new Map<PyValue, PyValue>([['PYTORCH_CUDA_ALLOC_CONF', 'max_split_size_mb:128']])],
    ['later', ODD_VALUES],
    ['segment_count', 2],
  ]);
  return {
    segments: [
      {
        device: 0,
        address: 0x7f00_0000_0000,
        totalSize: 2 ** 21,
        allocatedSize: 512,
        activeSize: 512,
        requestedSize: 100,
        stream: 0x5555_0000_1234,
        segmentType: 'small',
        segmentPoolId: [0, 3],
        isExpandable: false,
        stack: other,
        layout: ['blocks', 'device', 'address', 'total_size', 'stream', 'segment_pool_id', 'host', 'requested_size'],
        extra: new Map<string, PyValue>([
          ['host', 'machine-7'],
          ['requested_size', 2n ** 70n],
        ]),
        blocks: [
          {
            address: 0x7f00_0000_0000,
            size: 512,
            requestedSize: 100,
            state: 'active_allocated',
            stack: 0,
            layout: ['size', 'state', 'history'],
            history: [
              { address: 0x7f00_0000_0000, realSize: 100, stack, layout: ['addr', 'real_size', 'frames'] },
              { address: 0x7f00_0000_0100, realSize: 20, stack: 0, layout: ['addr', 'real_size'] },
            ],
          },
          { address: 0x7f00_0000_0200, size: 2 ** 21 - 512, requestedSize: 0, state: 'inactive', stack: other },
        ],
      },
    ],
    deviceTraces: [trace.build(), new DeviceTraceBuilder().build()],
    stacks,
    traceOverflowed: null,
    layout: ['later', 'device_traces', 'segments', 'allocator_settings', 'segment_count'],
    extra,
  };
}
