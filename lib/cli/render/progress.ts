// A progress bar on stderr, only when that is a terminal: files and pipes get none of it.

import { Presets, SingleBar } from 'cli-progress';

export interface Progress {
  update(done: number, total: number): void;
  stop(): void;
}

export function startProgress(label: string): Progress {
  if (process.stderr.isTTY !== true) return { update: () => {}, stop: () => {} };
  const options = { format: `${label} [{bar}] {percentage}%`, stream: process.stderr, clearOnComplete: true };
  const bar = new SingleBar({ ...options, hideCursor: true }, Presets.legacy);
  let started = false;
  return {
    update(done, total) {
      if (!started) bar.start(total, done);
      else {
        // The whole may grow.
        bar.setTotal(total);
        bar.update(done);
      }
      started = true;
    },
    stop() {
      if (started) bar.stop();
    },
  };
}
