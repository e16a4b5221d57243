// The real snapshot files, for tests that go through all of them. None where the shared data are missing.

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { sharedData } from './shared-data.js';

const folder = sharedData('snapshots');

export const SHARED_SNAPSHOTS: readonly { readonly name: string; readonly path: string }[] =
  folder === null
    ? []
    : readdirSync(folder)
        .filter((name) => name.endsWith('.pickle'))
        .sort()
        .map((name) => ({ name, path: join(folder, name) }));
