import { describe, expect, it } from 'vitest';
import { advise } from '../../../lib/analysis/tune/advice.js';
import { traceWorkload, type Workload } from '../../../lib/analysis/tune/workload.js';
import { readTrace } from '../../../lib/snapshot/files.js';
import { rule } from '../../support/cli.js';
import { writtenTrace } from '../../support/traces.js';

const MIB = 1024 * 1024;
const GIB = 1024 * MIB;
const EXPANDABLE = 'expandable_segments:True';
const classic = traceWorkload(readTrace(rule('fragmentation-classic')));
/** Of each of four segments 80 MiB are stuck. */
const holes = traceWorkload(
  writtenTrace((writer) => {
    const pairs = Array.from({ length: 4 }, () => [writer.allocate(200), writer.allocate(56)] as const);
    writer.free(...pairs.map(([first]) => first));
    for (let i = 0; i < 4; i++) writer.allocate(120);
  }),
);

describe('advice', () => {
  it('names what serves the workload at the capacity, least memory first', () => {
    const advice = advise(classic, { capacity: 10 * GIB, conf: '' });
    expect(advice.map(({ conf }) => conf)).toContain(EXPANDABLE);
    expect(
      advice.every(({ survives, policy, fidelity }) => survives && policy === 'pytorch' && fidelity === null),
    ).toBe(true);
    for (const { conf, predicted_peak } of advice) {
      const outcome = classic.run({ conf, policy: 'pytorch', capacity: 10 * GIB });
      expect({ survived: outcome.survived, peak: outcome.peakReserved }).toEqual({
        survived: true,
        peak: predicted_peak,
      });
    }
    expect(advice.map(({ predicted_peak }) => predicted_peak)).toEqual(
      [...advice].map(({ predicted_peak }) => predicted_peak).sort((a, b) => a - b),
    );
  });

  it('never names what is on already', () => {
    for (const conf of [EXPANDABLE, 'max_split_size_mb:128', 'roundup_power2_divisions:4']) {
      expect(advise(classic, { capacity: 10 * GIB, conf }).map((advice) => advice.conf)).not.toContain(conf);
    }
    expect(
      advise(classic, { capacity: 10 * GIB, conf: EXPANDABLE }).every(({ conf }) => conf.includes(EXPANDABLE)),
    ).toBe(true);
  });

  it('keeps what is in force, but for what does not go together', () => {
    const kept = advise(classic, { capacity: 10 * GIB, conf: 'roundup_power2_divisions:16' });
    expect(kept.map(({ conf }) => conf)).toContain(`${EXPANDABLE},roundup_power2_divisions:16`);
    const replaced = advise(classic, { capacity: 10 * GIB, conf: 'max_split_size_mb:2048' });
    expect(replaced.map(({ conf }) => conf)).toContain(EXPANDABLE);
  });

  it('counts a request that follows', () => {
    const fits = { capacity: 1200 * MIB, conf: '' };
    expect(holes.run({ ...fits, policy: 'pytorch' }).survived).toBe(true);
    const request = { bytes: 300 * MIB, stream: 0 };
    expect(holes.run({ ...fits, policy: 'pytorch', following: request }).survived).toBe(false);
    const advice = advise(holes, { ...fits, request });
    expect(advice.length).toBeGreaterThan(0);
    for (const { conf } of advice) {
      expect(holes.run({ ...fits, conf, policy: 'pytorch', following: request }).survived).toBe(true);
    }
  });

  it('is empty where live bytes do not fit, or nothing can be better', () => {
    const full = traceWorkload(writtenTrace((writer) => void writer.allocate(2048)));
    expect(advise(full, { capacity: GIB, conf: '' })).toEqual([]);
    expect(advise(full, { capacity: 4 * GIB, conf: '' })).toEqual([]);
  });

  it('names what at least needs less, where nothing serves', () => {
    const advice = advise(classic, { capacity: 9 * GIB, conf: '' });
    expect(advice.length).toBeGreaterThan(0);
    expect(advice.every(({ survives }) => !survives)).toBe(true);
  });

  it('carries the fidelity it rests on', () => {
    const recorded: Workload = { ...classic, fidelity: { allocations: 81, exact: 80 } };
    expect(advise(recorded, { capacity: 10 * GIB, conf: '' })[0]?.fidelity).toEqual({ allocations: 81, exact: 80 });
  });
});
