// Call sites and kinds of work, for all stacks at once: the same as for one stack after the other.

import { describe, expect, test } from 'vitest';
import { callSite, formatCallSite } from '../../lib/snapshot/call-site.js';
import { readSnapshot } from '../../lib/snapshot/files.js';
import { type Frame, StackTable } from '../../lib/snapshot/model.js';
import { CallSites, NO_SITE } from '../../lib/viewer/call-sites.js';
import { CATEGORIES } from '../../lib/viewer/categories.js';
import { programs } from '../support/programs.js';
import { SHARED_SNAPSHOTS } from '../support/shared-snapshots.js';

function expectSame(stacks: StackTable): void {
  const sites = new CallSites(stacks);
  for (let stack = 0; stack < stacks.size; stack++) {
    const frame = callSite(stacks, stack);
    const number = sites.siteOf[stack]!;
    expect(sites.names[number]).toBe(frame === null ? 'no stack' : formatCallSite(frame));
    expect(sites.keys[number]).toBe(frame === null ? '' : `${frame.filename}\0${formatCallSite(frame)}`);
  }
  expect(new Set(sites.keys).size).toBe(sites.keys.length);
}

test('sites are those of `callSite`', () => {
  for (const { snapshot } of programs(4)) expectSame(snapshot.stacks);
});

test.each(SHARED_SNAPSHOTS)('of the real $name too', ({ path }) => {
  expectSame(readSnapshot(path).stacks);
});

describe('kinds of work', () => {
  const frame = (name: string, filename: string): Frame => ({ name, filename, line: 1 });
  test.each([
    ['optimizer', [frame('step', '/env/torch/optim/adamw.py'), frame('train', 'main.py')]],
    ['backward pass', [frame('torch::autograd::Engine::evaluate_function()', '??')]],
    ['backward pass', [frame('mul', 'ops.py'), frame('backward', '/env/torch/_tensor.py')]],
    ['communication', [frame('all_reduce', '/env/torch/distributed/c10d.py')]],
    ['compiled code', [frame('call', '/tmp/torchinductor_me/x.py')]],
    ['data loading', [frame('fetch', '/env/torch/utils/data/_utils/fetch.py')]],
    ['forward pass', [frame('forward', 'model.py')]],
    ['other code', [frame('load', 'main.py')]],
    // The first of the list counts, wherever its frame stands.
    ['optimizer', [frame('forward', 'model.py'), frame('step', '/env/torch/optim/sgd.py')]],
  ] as const)('%s', (category, frames) => {
    const stacks = new StackTable();
    const stack = stacks.internFrames(frames);
    const sites = new CallSites(stacks);
    expect(CATEGORIES[sites.categoryOf[stack]!]).toBe(category);
    expect(CATEGORIES[sites.categoryOf[0]!]).toBe('no stack');
    expect(sites.siteOf[0]).toBe(NO_SITE);
  });
});
