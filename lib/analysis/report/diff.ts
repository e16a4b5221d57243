// What grew and what shrank from one snapshot to another, by call site. Stacks are matched by their text, since the numbers of two files
// have nothing in common. Must not know files or terminals.

import { parseConfig } from '../../allocator/config-parser.js';
import type { Snapshot } from '../../snapshot/model.js';
import { recordedConf } from '../recording/recorded-config.js';
import type { Holder, ReportFrame } from './format.js';
import { stackKey } from './frames.js';
import { devicesOf, memoryFigures } from './gap.js';
import { holdersOf } from './holders.js';
import { liveBlocks } from './live-blocks.js';
import { courseOf } from './peak.js';

/** Snake case, bytes: it is printed as it is. `bytes` and `count` are b less a. */
export interface SiteDifference {
  readonly frames: readonly ReportFrame[];
  readonly bytes: number;
  readonly count: number;
  readonly bytes_a: number;
  readonly bytes_b: number;
  readonly count_a: number;
  readonly count_b: number;
}

export interface DeviceDifference {
  readonly device: number;
  readonly reserved: number;
  readonly allocated: number;
  readonly reserved_a: number;
  readonly reserved_b: number;
  readonly allocated_a: number;
  readonly allocated_b: number;
}

export interface SnapshotDifference {
  readonly at: 'end' | 'peak';
  readonly devices: readonly DeviceDifference[];
  /** What grew most first, what shrank most last; sites without a change are left out. */
  readonly sites: readonly SiteDifference[];
}

/** @param at compare the ends, or each at its own peak of allocated bytes. Linear in events and blocks. */
export function diffSnapshots(a: Snapshot, b: Snapshot, at: 'end' | 'peak' = 'end'): SnapshotDifference {
  const sites = new Map<string, { -readonly [K in keyof SiteDifference]: SiteDifference[K] }>();
  const add = (holder: Holder, side: 'a' | 'b'): void => {
    const key = stackKey(holder.frames);
    const none = { bytes: 0, count: 0, bytes_a: 0, bytes_b: 0, count_a: 0, count_b: 0 };
    const site = sites.get(key) ?? { frames: holder.frames, ...none };
    site[`bytes_${side}`] += holder.bytes;
    site[`count_${side}`] += holder.count;
    sites.set(key, site);
  };
  for (const holder of allHolders(a, at)) add(holder, 'a');
  for (const holder of allHolders(b, at)) add(holder, 'b');
  const changed = [...sites.values()]
    .map((site) => ({ ...site, bytes: site.bytes_b - site.bytes_a, count: site.count_b - site.count_a }))
    .filter(({ bytes, count }) => bytes !== 0 || count !== 0)
    .sort((x, y) => y.bytes - x.bytes || y.count - x.count);
  const devices = [...new Set([...devicesOf(a), ...devicesOf(b)])].sort((x, y) => x - y);
  return { at, devices: devices.map((device) => deviceDifference(a, b, device, at)), sites: changed };
}

function allHolders(snapshot: Snapshot, at: 'end' | 'peak'): Holder[] {
  const config = parseConfig(recordedConf(snapshot));
  return devicesOf(snapshot).flatMap((device) => {
    const event = at === 'end' ? null : (courseOf(snapshot, device, config).peak?.event ?? null);
    return holdersOf(snapshot, device, liveBlocks(snapshot, device, event, config));
  });
}

function deviceDifference(a: Snapshot, b: Snapshot, device: number, at: 'end' | 'peak'): DeviceDifference {
  const before = totals(a, device, at);
  const after = totals(b, device, at);
  return {
    device,
    reserved: after.reserved - before.reserved,
    allocated: after.allocated - before.allocated,
    reserved_a: before.reserved,
    reserved_b: after.reserved,
    allocated_a: before.allocated,
    allocated_b: after.allocated,
  };
}

function totals(
  snapshot: Snapshot,
  device: number,
  at: 'end' | 'peak',
): { readonly reserved: number; readonly allocated: number } {
  const peak = at === 'peak' ? courseOf(snapshot, device, parseConfig(recordedConf(snapshot))).peak : null;
  const own = snapshot.segments.filter((segment) => segment.device === device);
  return peak ?? memoryFigures(own, null);
}
