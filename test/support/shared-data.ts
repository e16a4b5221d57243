// Where the large data are that tests read but the repository does not hold: the folder `shared` beside it, or the one that
// CUDALLOC_SHARED names. With CUDALLOC_REQUIRE_SHARED=1 missing data are a failure instead of a skipped test.

import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The root of the repository. */
export const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));

const SHARED = resolve(REPOSITORY, process.env.CUDALLOC_SHARED ?? '../shared');

/**
 * The path of shared data, or null where they are missing.
 * @throws Error where they are missing and CUDALLOC_REQUIRE_SHARED is 1
 */
export function sharedData(path: string): string | null {
  const full = join(SHARED, path);
  if (existsSync(full)) return full;
  if (process.env.CUDALLOC_REQUIRE_SHARED === '1')
    throw new Error(`${full} is missing and CUDALLOC_REQUIRE_SHARED is 1`);
  return null;
}
