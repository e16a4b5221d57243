// How much memory does a workload need, and what does that cost in calls of the driver? Every golden trace of at least 20,000 operations and every trace of
// a GPU, on the simulated device, under fixed segments, PyTorch's expandable segments, and the policy `paged`.
// `node bench/fragmentation.bench.mjs [--trace part of a name] [--prices create=29,map=2,access=38,unmap=34,release=23] [--json]`

import { existsSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import Table from 'cli-table3';
import { TraceRunner } from '../dist/analysis/replay/trace-runner.js';
import { formatTrace, openDevice, parseTrace, readTrace, TraceOp } from '../dist/index.js';
import { machine, SMOKE } from './support.mjs';

const MIB = 2 ** 20;
const STEP = 2 * MIB;
const ROOMY = 80 * 1024 * MIB;
const FEWEST_OPERATIONS = 20_000;
/** One iteration of training, that many times. */
const REPEATED = 'cnn-train-2k';
const TIMES = SMOKE ? 6 : 50;
const POLICIES = [
  { name: 'fixed', policy: 'pytorch', conf: '' },
  { name: 'expandable', policy: 'pytorch', conf: 'expandable_segments:True' },
  { name: 'paged', policy: 'paged', conf: '' },
];
/** What a trace says of settings and statistics; a memory fraction would make another device of it. */
const LEFT_OUT = new Set([
  TraceOp.MemoryFraction,
  TraceOp.Configure,
  TraceOp.ResetPeak,
  TraceOp.ResetAccumulated,
  TraceOp.Checkpoint,
  TraceOp.BaseAllocation,
  TraceOp.CacheInfo,
]);

const { values: options } = parseArgs({
  options: {
    trace: { type: 'string', default: SMOKE ? 'cnn-train-2k' : '' },
    prices: { type: 'string', default: 'create=29,map=2,access=38,unmap=34,release=23' },
    json: { type: 'boolean', default: false },
  },
});
const prices = Object.fromEntries(
  options.prices
    .split(',')
    .map((part) => part.split('='))
    .map(([k, v]) => [k, Number(v)]),
);
for (const name of ['create', 'map', 'access', 'unmap', 'release']) {
  if (!(prices[name] >= 0))
    throw new Error(`--prices: ${name}=<microseconds of a call for one page of 2 MiB> is missing`);
}

/** Microseconds of calls over virtual memory, linear through published measurements: one call over k pages of 2 MiB. */
const create = (k) => prices.create * (0.967 + 0.033 * k);
const access = (k) => prices.access * (0.93 + 0.07 * k);

/** A simulated device that adds up what its calls would take, and counts them and the mappings there are. */
function pricedDevice(capacity) {
  const device = openDevice({ backend: 'sim', capacity });
  const spent = { us: 0, calls: 0, mappings: 0, mostMappings: 0 };
  const unmapped = new Map();
  const pay = (calls, us) => {
    spent.calls += calls;
    spent.us += us;
  };
  const wrap = (name, after) => {
    const call = device[name].bind(device);
    device[name] = (...args) => {
      const copy = args.map((arg) => (arg instanceof Int32Array ? arg.slice() : arg));
      const result = call(...args);
      after(...copy);
      return result;
    };
  };
  const pages = (bytes) => bytes / STEP;
  wrap('memCreate', (bytes, handles) => pay(handles.length, handles.length * create(pages(bytes))));
  wrap('memRelease', (handles) => pay(handles.length, handles.length * prices.release));
  wrap('memMap', (address, bytes, handles) => {
    for (let i = 0; i < handles.length; i++) unmapped.set(address + i * bytes, bytes);
    pay(handles.length + 1, handles.length * prices.map + access(handles.length * pages(bytes)));
    spent.mappings += handles.length;
    spent.mostMappings = Math.max(spent.mostMappings, spent.mappings);
  });
  wrap('memUnmap', (address, bytes, count) => {
    for (let i = 0; i < count; i++) unmapped.delete(address + i * bytes);
    pay(count, count * prices.unmap);
    spent.mappings -= count;
  });
  wrap('memUnmapRange', (address, bytes) => {
    for (let at = address; at < address + bytes; spent.mappings--) {
      const size = unmapped.get(at);
      unmapped.delete(at);
      at += size;
    }
    pay(1, prices.unmap);
  });
  wrap('malloc', () => pay(1, 0));
  wrap('free', () => pay(1, 0));
  return { device, spent };
}

/** One run; null when a request fails. */
function run(trace, { policy, conf }, capacity) {
  const { device, spent } = pricedDevice(capacity);
  const runner = new TraceRunner(trace, { device, policy, conf });
  try {
    const third = Math.ceil((trace.ops * 2) / 3);
    let before = 0;
    for (let op = 0; op < trace.ops; op++) {
      if (op === third) before = spent.calls;
      if (LEFT_OUT.has(trace.codes[op])) continue;
      try {
        runner.apply(op);
      } catch (error) {
        if (error.code === 'ERR_CUDALLOC_OUT_OF_MEMORY') return null;
        // What the trace itself does wrong, a double free, is a part of it.
        if (error.code === undefined || error.code === 'ERR_CUDALLOC_DRIVER') throw error;
      }
    }
    const stats = runner.allocator.memoryStats();
    return {
      reserved: stats['reserved_bytes.all.peak'],
      live: stats['active_bytes.all.peak'],
      us: spent.us,
      mappings: spent.mostMappings,
      lastThird: spent.calls - before,
    };
  } finally {
    runner.close();
    device.close();
  }
}

/** The smallest capacity that survives, by bisection between the live bytes and what was reserved. */
function smallest(trace, policy, roomy) {
  let failing = Math.ceil(roomy.live / STEP) * STEP - STEP;
  let surviving = Math.ceil(roomy.reserved / STEP) * STEP;
  while (run(trace, policy, surviving) === null) {
    failing = surviving;
    surviving *= 2;
  }
  while (surviving - failing > STEP) {
    const capacity = Math.ceil((surviving + failing) / 2 / STEP) * STEP;
    if (run(trace, policy, capacity) === null) failing = capacity;
    else surviving = capacity;
  }
  return surviving;
}

/** A trace under every policy, roomy and tight; null when the roomy device is too small for it. */
function measureTrace(name, trace) {
  const figures = {};
  for (const policy of POLICIES) {
    const roomy = run(trace, policy, ROOMY);
    if (roomy === null) return null;
    figures[policy.name] = { roomy, smallest: smallest(trace, policy, roomy) };
  }
  const capacity = Math.max(figures.expandable.smallest, figures.paged.smallest);
  for (const policy of POLICIES.slice(1)) figures[policy.name].tight = run(trace, policy, capacity);
  const { live } = figures.paged.roomy;
  return { name, live, target: Math.max(1.02 * live, live + 32 * MIB), figures };
}

/** A trace again and again: at its end each time everything is freed. */
function repeated(trace) {
  const lines = formatTrace(trace)
    .split('\n')
    .filter((line) => /^[afrehus]\b/.test(line));
  const ids = lines.filter((line) => line.startsWith('a ')).map((line) => Number(line.split(' ')[1]));
  const once = [...lines, ...ids.map((id) => `f ${id}`)];
  const span = Math.max(...ids) + 1;
  const renumber = (line, by) => line.replace(/^([afr]) (\d+)/, (_, op, id) => `${op} ${Number(id) + by}`);
  const all = Array.from({ length: TIMES }, (_, i) => once.map((line) => renumber(line, i * span)));
  return parseTrace(`${all.flat().join('\n')}\n`);
}

function row({ name, live, target, figures: { fixed, expandable, paged } }) {
  const mib = (bytes) => String(Math.ceil(bytes / MIB));
  const ratio = (a, b) => (b === 0 ? (a === 0 ? '1.00' : 'more') : (a / b).toFixed(2));
  const mark = (text, met) => (met ? text : `${text} !`);
  const tight = paged.tight;
  return [
    name,
    mib(live),
    mib(target),
    mib(fixed.roomy.reserved),
    mib(expandable.roomy.reserved),
    mark(mib(paged.roomy.reserved), paged.roomy.reserved <= target),
    mib(fixed.smallest),
    mib(expandable.smallest),
    mark(mib(paged.smallest), paged.smallest <= target),
    mark(ratio(paged.roomy.us, expandable.roomy.us), paged.roomy.us <= 1.25 * expandable.roomy.us),
    tight === null ? 'fails !' : mark(ratio(tight.us, expandable.tight.us), tight.us <= expandable.tight.us),
    `${expandable.roomy.lastThird} / ${mark(String(paged.roomy.lastThird), paged.roomy.lastThird <= expandable.roomy.lastThird)}`,
    String(Math.max(paged.roomy.mappings, tight?.mappings ?? 0)),
  ];
}

const HEAD = [
  'trace',
  'live',
  'target',
  'reserved: fixed',
  'expandable',
  'paged',
  'smallest: fixed',
  'expandable',
  'paged',
  'time, roomy',
  'time, tight',
  'calls, last third',
  'mappings',
];

function tracesIn(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .map((name) => ({ name, path: join(folder, name, 'trace.txt.gz') }))
    .filter(({ path }) => existsSync(path));
}

const shared = process.env.CUDALLOC_SHARED ?? fileURLToPath(new URL('../../shared', import.meta.url));
const own = fileURLToPath(new URL('../test/golden/data/workloads', import.meta.url));
const folders = SMOKE ? [own] : [join(shared, 'golden/pytorch/workloads'), join(shared, 'traces/gpu')];
const chosen = folders.flatMap(tracesIn).filter(({ name }) => name.includes(options.trace));
const results = [];
function add(name, trace) {
  const result = measureTrace(name, trace);
  if (result === null) console.error(`${name}: more than the roomy device`);
  else results.push(result);
}
for (const { name, path } of chosen) {
  const isReal = path.includes(join('traces', 'gpu'));
  const trace = readTrace(path);
  if (!SMOKE && !isReal && trace.ops < FEWEST_OPERATIONS) continue;
  add(name, trace);
}
if (REPEATED.includes(options.trace)) {
  add(`${REPEATED} x ${TIMES}`, repeated(readTrace(join(own, REPEATED, 'trace.txt.gz'))));
}
if (results.length === 0) {
  console.error(`no trace: ${folders.map((folder) => basename(folder)).join(' and ')} are read beside the repository`);
  process.exit(2);
}
if (options.json) {
  console.log(JSON.stringify({ machine: machine(), prices, roomy: ROOMY, results }, null, 2));
} else {
  console.log(machine());
  console.log(
    'MiB; times and calls of paged against expandable segments; tight: the smallest capacity at which both survive; !: target missed',
  );
  const table = new Table({
    head: HEAD,
    wordWrap: true,
    colAligns: HEAD.map((_, i) => (i === 0 ? 'left' : 'right')),
    style: { head: [], border: [] },
  });
  table.push(...results.map(row));
  console.log(table.toString());
}
