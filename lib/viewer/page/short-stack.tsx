// The frames of a block's stack that a tooltip has room for. Must not know where it is shown.

import { scriptExtension } from '../../snapshot/call-site.js';
import type { DeviceHistory } from '../device-history.js';
import { StackList } from './stack-list.js';

const MOST = 8;

interface Props {
  readonly history: DeviceHistory;
  /** Of the blocks. */
  readonly row: number;
}

export function ShortStack({ history: { snapshot, lifetimes }, row }: Props) {
  const frames = snapshot.stacks.frames(lifetimes.blocks.stacks[row] as number);
  // Of machine code there are dozens; those of scripts say more.
  const scripts = frames.filter(({ filename }) => scriptExtension(filename) !== null);
  return <StackList frames={(scripts.length > 0 ? scripts : frames).slice(0, MOST)} />;
}
