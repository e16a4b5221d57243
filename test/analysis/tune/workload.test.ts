import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { traceWorkload, type WorkloadOptions } from '../../../lib/analysis/tune/workload.js';
import { parseTrace } from '../../../lib/snapshot/trace.js';
import { ROOT } from '../../support/child.js';
import { goldenCases, readCaseTrace } from '../../support/golden-cases.js';
import { writtenTrace } from '../../support/traces.js';

const MIB = 1024 * 1024;
const ROOMY = 1024 ** 4;

function runWith(options: Partial<WorkloadOptions>): WorkloadOptions {
  return { conf: '', policy: 'pytorch', capacity: ROOMY, ...options };
}

describe('a trace as a workload', () => {
  const cases = goldenCases(join(ROOT, 'test/golden/data')).filter(({ name }) => name.startsWith('workloads/'));
  it('has golden workloads to be compared with', () => expect(cases.length).toBeGreaterThanOrEqual(28));

  it.each(cases.map((golden) => [golden.name, golden] as const))(
    '%s: has the peaks and counts of PyTorch',
    (_, golden) => {
      const { config, capacity } = golden.meta;
      const outcome = traceWorkload(readCaseTrace(golden)).run(runWith({ conf: config, capacity }));
      const { summary } = golden.meta as unknown as { summary: Record<string, number> };
      expect({
        ooms: outcome.outOfMemories,
        num_alloc_retries: outcome.retries,
        peak_allocated_bytes: outcome.peakAllocated,
        peak_reserved_bytes: outcome.peakReserved,
        num_device_alloc: outcome.segments,
      }).toEqual({
        ooms: summary.ooms,
        num_alloc_retries: summary.num_alloc_retries,
        peak_allocated_bytes: summary.peak_allocated_bytes,
        peak_reserved_bytes: summary.peak_reserved_bytes,
        num_device_alloc: summary.num_device_alloc,
      });
      expect(outcome.survived).toBe(summary.ooms === 0);
      expect(outcome.firstOutOfMemory === null).toBe(summary.ooms === 0);
    },
  );

  it('knows its requests', () => {
    const workload = traceWorkload(parseTrace('C max_split_size_mb:64\na 1 100 0\nf 1\na 2 0 0\na 3 700 1\n'));
    expect(workload).toMatchObject({ allocations: 3, conf: 'max_split_size_mb:64', fidelity: null });
    expect([...workload.sizes]).toEqual([100, 0, 700]);
    expect(traceWorkload(parseTrace('a 1 100 0\nC max_split_size_mb:64\n')).conf).toBe('');
  });

  it("keeps a run's settings and the peaks of all of it, whatever the trace says", () => {
    const text = (extra: string) => `a 1 ${40 * MIB} 0\nf 1\n${extra}a 2 1000 0\na 3 ${2 * MIB} 0\n`;
    const options = runWith({ conf: 'expandable_segments:True' });
    const plain = traceWorkload(parseTrace(text(''))).run(options);
    const noisy = traceWorkload(parseTrace(text('C max_split_size_mb:21\nP\nA\nN\nb 1\nc\n'))).run(options);
    expect(noisy).toEqual(plain);
    expect(plain.stats.num_device_alloc).toBeGreaterThan(0);
  });

  it('keeps a memory fraction', () => {
    const workload = traceWorkload(parseTrace(`F 0.5\na 1 ${60 * MIB} 0\n`));
    expect(workload.run(runWith({ capacity: 100 * MIB })).survived).toBe(false);
    expect(workload.run(runWith({ capacity: 120 * MIB })).survived).toBe(true);
  });

  it('goes on after an out of memory, or stops there', () => {
    const workload = traceWorkload(parseTrace(`a 1 ${60 * MIB} 0\nf 1\na 2 ${300 * MIB} 0\na 3 ${80 * MIB} 0\n`));
    const on = workload.run(runWith({ capacity: 100 * MIB }));
    expect(on).toMatchObject({ survived: false, outOfMemories: 1, peakReserved: 80 * MIB });
    expect(on.firstOutOfMemory?.requested).toBe(300 * MIB);
    const stopped = workload.run(runWith({ capacity: 100 * MIB, stopAtOutOfMemory: true }));
    expect(stopped).toMatchObject({ survived: false, outOfMemories: 1, peakReserved: 60 * MIB });
  });

  it('counts the calls of the allocator alone, failed ones too', () => {
    const { driverCalls } = traceWorkload(parseTrace(`a 1 ${60 * MIB} 1\nc\na 2 ${90 * MIB} 0\n`)).run(
      runWith({ capacity: 100 * MIB }),
    );
    // 60 MiB; twice 90 MiB; one cudaMemGetInfo for the message.
    expect(driverCalls).toBe(4);
  });

  it('takes a request behind it, on a stream of its own too', () => {
    const workload = traceWorkload(writtenTrace((writer) => writer.free(writer.allocate(60))));
    const behind = (stream: number) =>
      workload.run(runWith({ capacity: 110 * MIB, following: { bytes: 60 * MIB, stream } }));
    expect(behind(0)).toMatchObject({ survived: true, segments: 1, peakReserved: 60 * MIB });
    // The cached block is the other stream's; a flush makes room.
    expect(behind(5)).toMatchObject({ survived: true, segments: 2, retries: 1 });
    expect(workload.run(runWith({ capacity: 50 * MIB, following: { bytes: 1, stream: 0 } })).survived).toBe(false);
    expect(workload.allocations).toBe(1);
  });
});
