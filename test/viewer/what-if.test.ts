// Answers to questions about other settings, and how the questions are read.

import { describe, expect, test } from 'vitest';
import { parseConfig } from '../../lib/allocator/config-parser.js';
import { lifetimesOf } from '../../lib/analysis/recording/lifetimes.js';
import { ConfigError, UnsupportedError } from '../../lib/errors.js';
import { readSnapshot } from '../../lib/snapshot/files.js';
import { OOM } from '../../lib/snapshot/model.js';
import { MIB, parseSize } from '../../lib/units.js';
import { type WhatIfQuestion, WhatIfRecording, type WhatIfStep, whatIf } from '../../lib/viewer/what-if.js';
import { checkDraft, settingsToTry, writeSize } from '../../lib/viewer/what-if-input.js';
import { CONFS, SEED } from '../support/programs.js';
import { type RecordingPlan, record, snapshotOf } from '../support/recordings.js';
import { SHARED_SNAPSHOTS } from '../support/shared-snapshots.js';

const roomy = (conf: string): WhatIfQuestion => ({ device: 0, conf, policy: 'pytorch', capacity: null });
/** A program that is recorded from its beginning to its end. */
const recorded = (plan: Pick<RecordingPlan, 'conf' | 'capacity'>) =>
  record({ ...plan, seed: SEED, late: false, ring: Number.POSITIVE_INFINITY, events: false, stacks: true });
const fragmented = () => recorded({ conf: '', capacity: 600 * MIB });

describe('answers', () => {
  test('of a complete recording the baseline is what was recorded', () => {
    for (const conf of CONFS) {
      const { snapshot, peakReserved } = recorded({ conf, capacity: 1024 ** 4 });
      const { baseline, fidelity } = whatIf(snapshot, roomy('max_split_size_mb:64'));
      const { allocated, reserved } = lifetimesOf(snapshot, 0, parseConfig(conf));
      expect(fidelity.exact, conf).toBe(fidelity.allocations);
      expect(baseline.peakReserved, conf).toBe(peakReserved);
      expect(baseline.peakReserved, conf).toBe(Math.max(...reserved));
      expect(baseline.peakAllocated, conf).toBe(Math.max(...allocated));
    }
  });

  test('the recorded settings themselves are not run twice', () => {
    const { baseline, tried } = whatIf(fragmented().snapshot, roomy(''));
    expect(tried).toBe(baseline);
    const other = whatIf(fragmented().snapshot, { ...roomy(''), policy: 'default' });
    expect(other.tried).not.toBe(other.baseline);
  });

  test('both are on the device that was asked about, and failures say at which event', () => {
    const { snapshot, outOfMemories } = fragmented();
    const recording = new WhatIfRecording(snapshot, 0);
    const short = recording.answer({ ...roomy('roundup_power2_divisions:2'), capacity: 300 * MIB });
    const own = recording.answer({ ...roomy('roundup_power2_divisions:2'), capacity: 600 * MIB });
    const enough = recording.answer(roomy('roundup_power2_divisions:2'));
    expect(outOfMemories).toBeGreaterThan(0);
    expect(own.baseline.outOfMemories).toBe(outOfMemories);
    const { actions, length } = snapshot.deviceTraces[0]!;
    const failed = [...actions.subarray(0, length).keys()].filter((event) => actions[event] === OOM);
    expect(own.baseline.failures).toEqual(failed);
    expect(short.baseline.outOfMemories).toBeGreaterThan(outOfMemories);
    expect(short.baseline.peakReserved).toBeLessThanOrEqual(300 * MIB);
    expect(short.tried.peakReserved).toBeLessThanOrEqual(300 * MIB);
    expect(enough.baseline.outOfMemories + enough.tried.outOfMemories).toBe(0);
  });

  test('wrong settings are refused in words, before anything is run', () => {
    const steps: WhatIfStep[] = [];
    const ask = () => whatIf(fragmented().snapshot, roomy('expandable_segment:True'), (step) => steps.push(step));
    expect(ask).toThrow(ConfigError);
    expect(ask).toThrow(/expandable_segment/);
    expect(steps).toEqual([]);
  });

  test('a file without a history says so', () => {
    const state = snapshotOf([{ address: 0x7f0000000000, blocks: [[2 * MIB, 2 * MIB]] }], []);
    expect(() => whatIf(state, roomy(''))).toThrow(UnsupportedError);
    expect(() => whatIf(state, roomy(''))).toThrow(/records no allocation/);
  });

  test.each(SHARED_SNAPSHOTS)('of the real $name rest on a replay that does what was recorded', ({ path }) => {
    const snapshot = readSnapshot(path);
    let recording: WhatIfRecording;
    try {
      recording = new WhatIfRecording(snapshot, 0);
    } catch (error) {
      expect(error).toBeInstanceOf(UnsupportedError);
      return;
    }
    const { tried, baseline, fidelity } = recording.answer(roomy('expandable_segments:True'));
    expect(fidelity.exact).toBe(fidelity.allocations);
    expect(tried.moments).toEqual(baseline.moments);
    expect(tried.peakAllocated).toBeGreaterThan(0);
    expect(tried.outOfMemories).toBe(0);
  });
});

describe('questions', () => {
  const draft = { conf: '', policy: 'pytorch', capacity: '' } as const;

  test('an empty form asks about the defaults and a device of any size', () => {
    expect(checkDraft(draft)).toEqual({ confFaults: [], confWarnings: [], capacityFault: null, capacity: null });
  });

  test('faults are named as they are written', () => {
    const { confFaults } = checkDraft({ ...draft, conf: 'expandable_segment:True' });
    expect(confFaults[0]).toMatch(/did you mean expandable_segments\?/);
    expect(checkDraft({ ...draft, conf: 'expandable_segments:true' }).confFaults.join()).toMatch(/capital/);
    expect(checkDraft({ ...draft, capacity: '12 apples' }).capacityFault).toMatch(/capacity: "12 apples" .*unit/);
    expect(checkDraft({ ...draft, capacity: '0' }).capacityFault).toMatch(/at least 1 byte/);
  });

  test('settings that contradict each other are accepted with a warning', () => {
    const { confFaults, confWarnings } = checkDraft({
      ...draft,
      conf: 'expandable_segments:True,max_split_size_mb:64',
    });
    expect(confFaults).toEqual([]);
    expect(confWarnings[0]).toMatch(/without end/);
  });

  test('a written size is read as the same bytes', () => {
    for (const bytes of [1, 1000, 1024, 1536, 14 * 1024 * MIB, 14 * 1024 * MIB + 1, 600 * MIB, 85_520_809_984])
      expect(parseSize(writeSize(bytes))).toBe(bytes);
    expect(writeSize(14 * 1024 * MIB)).toBe('14GiB');
  });

  test('settings worth trying are accepted ones, keep those in force as an option, and are not those', () => {
    const inForce = 'roundup_power2_divisions:4';
    const found = settingsToTry(Float64Array.of(512, 3 * MIB, 700 * MIB), inForce, 'pytorch');
    expect(found).toContain('');
    expect(found).toContain('expandable_segments:True');
    expect(found).toContain('expandable_segments:True,roundup_power2_divisions:4');
    expect(found).not.toContain(inForce);
    expect(new Set(found).size).toBe(found.length);
    for (const conf of found) expect(() => parseConfig(conf)).not.toThrow();
  });
});
