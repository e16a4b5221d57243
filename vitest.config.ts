// How the tests run: each file in a process of its own (the addon keeps process-wide state), in four projects so that
// one can be run alone: `npx vitest run --project unit`. Knows nothing of what is tested.

import { defineConfig } from 'vitest/config';

const golden = ['test/golden/**/*.test.ts'];
const browser = ['test/browser/**/*.test.ts'];
const packaging = ['test/package/**/*.test.ts'];

// The developer's own settings would change what the allocator does; the test processes inherit this environment.
for (const name of [
  'CUDALLOC_CONF',
  'PYTORCH_ALLOC_CONF',
  'PYTORCH_CUDA_ALLOC_CONF',
  'CUDALLOC_POLICY',
  'CUDALLOC_BACKEND',
]) {
  delete process.env[name];
}

// A machine-readable report beside the usual output, for whoever counts the tests of a plain `npm test`.
const report = process.env.CUDALLOC_TEST_REPORT;

export default defineConfig({
  test: {
    environment: 'node',
    pool: 'forks',
    watch: false,
    reporters: report === undefined ? ['default'] : ['default', ['json', { outputFile: report }]],
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['test/**/*.test.ts'],
          exclude: [...golden, ...browser, ...packaging],
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      { extends: true, test: { name: 'golden', include: golden, testTimeout: 300_000, hookTimeout: 60_000 } },
      { extends: true, test: { name: 'browser', include: browser, testTimeout: 120_000, hookTimeout: 60_000 } },
      { extends: true, test: { name: 'package', include: packaging, testTimeout: 180_000, hookTimeout: 300_000 } },
    ],
  },
});
