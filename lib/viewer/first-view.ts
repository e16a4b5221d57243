// The moment that pictures and the page show first, from the words in which it is asked for. Must not know who asks.

import { devicesOf } from '../analysis/report/gap.js';
import { lastFailure } from '../analysis/report/snapshot-verdict.js';
import { ConfigError } from '../errors.js';
import type { Snapshot } from '../snapshot/model.js';
import { type DeviceHistory, deviceHistory } from './device-history.js';

/** An event's number: the state after it. */
export type At = number | 'peak' | 'oom' | 'end';

export interface FirstView {
  readonly device: number;
  /** Null: the end. */
  readonly moment: number | null;
  /** Made when it is asked for. */
  readonly history: () => DeviceHistory;
}

/**
 * Linear in events; at the peak and with `history` in blocks too.
 * @param device default: the first; for `oom` that of the last one
 * @throws ConfigError when the snapshot has no such device, event or out of memory
 */
export function firstViewOf(snapshot: Snapshot, at: At, device?: number): FirstView {
  const devices = devicesOf(snapshot);
  if (device !== undefined && !devices.includes(device))
    throw refused('device', device, `the snapshot has no device ${device}; it has ${devices.join(', ') || 'none'}`);
  const failure = at === 'oom' ? lastFailure(snapshot, device) : null;
  const shown = device ?? failure?.device ?? devices[0] ?? 0;
  let made: DeviceHistory | null = null;
  const history = (): DeviceHistory => {
    made ??= deviceHistory(snapshot, shown);
    return made;
  };
  return { device: shown, moment: momentOf(at), history };

  function momentOf(wanted: At): number | null {
    const events = snapshot.deviceTraces[shown]?.length ?? 0;
    switch (wanted) {
      case 'end':
        return null;
      case 'peak':
        return history().peak;
      case 'oom':
        if (failure === null) throw refused('at', at, 'the snapshot records no out of memory');
        return failure.event;
      default:
        if (wanted >= events) {
          const which = events === 0 ? 'none' : `numbered 0 to ${events - 1}`;
          throw refused('at', at, `there is no event ${wanted}; the events of device ${shown} are ${which}`);
        }
        return wanted;
    }
  }
}

function refused(key: string, value: At, why: string): ConfigError {
  return new ConfigError(`--${key}: ${why}`, { key, value: String(value) });
}

/** As the page's address has it; what it starts with anyway is left out. */
export function formatFirstView({ device, moment }: Pick<FirstView, 'device' | 'moment'>): string {
  const parts = [...(device === 0 ? [] : [`device=${device}`]), ...(moment === null ? [] : [`cursor=${moment}`])];
  return parts.join('&');
}
