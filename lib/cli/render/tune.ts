// The outcome of a search for settings for people: the table, and the line to paste. Pure text.

import { optionStatus, optionVersions, settingsVariable, sinceWhen } from '../../analysis/conf/torch-versions.js';
import { needsLess, type TunedSetting } from '../../analysis/tune/tune.js';
import { formatSize } from '../../units.js';
import { formatCount, indent, style, table, wrap } from './style.js';

/** The JSON document of `cudalloc tune`. Bytes. */
export interface TuneReport {
  readonly file: string;
  readonly kind: 'trace' | 'snapshot';
  readonly allocations: number;
  readonly recorded_conf: string;
  /** How much of the recording a replay reproduces: what the answers rest on. Null for a trace. */
  readonly fidelity: { readonly allocations: number; readonly exact: number } | null;
  readonly capacity: number | null;
  /** Where `retries`, `segments` and `driver_calls` come from. */
  readonly figures_at: 'capacity' | 'roomy';
  /** Best first. */
  readonly settings: readonly TunedSetting[];
}

/** @param top how many rows; 0: all */
export function renderTune(report: TuneReport, top: number): string {
  const { settings } = report;
  const shown = rowsToShow(report, top);
  const parts = [heading(report), settingsTable(report, shown)];
  const hidden = settings.length - shown.length;
  if (hidden > 0) parts.push(`and ${hidden} more (--top 0 shows all)`);
  const silent = shown.filter(({ reason }) => reason !== null);
  if (silent.length > 0) {
    const lines = silent.map(({ conf, reason }) => wrap(`${conf}: ${reason ?? ''}`));
    parts.push(`${style.bold('Never triggered')}\n${indent([...new Set(lines)].join('\n'))}`);
  }
  parts.push(conclusion(report));
  return parts.join('\n\n');
}

function heading({ file, kind, allocations, fidelity, capacity }: TuneReport): string {
  const where = capacity === null ? '' : `, to fit on ${formatSize(capacity)}`;
  const lines = [`${style.bold(file)}: ${formatCount(allocations)} requests${where}`];
  if (fidelity !== null) {
    const percent = fidelity.allocations === 0 ? 100 : (100 * fidelity.exact) / fidelity.allocations;
    lines.push(
      `fidelity: ${formatCount(fidelity.exact)} of ${formatCount(fidelity.allocations)} recorded placements are reproduced ` +
        `(${percent.toFixed(percent === 100 ? 0 : 2)} %); the figures below rest on it`,
    );
  } else if (kind === 'trace') lines.push('a trace records no placements: what a replay does cannot be compared');
  return lines.join('\n');
}

/** The best, and where they are not among them those to compare with: no settings, and the recorded ones. */
function rowsToShow({ settings, recorded_conf }: TuneReport, top: number): TunedSetting[] {
  const compared = (setting: TunedSetting): boolean => setting.conf === '' || setting.conf === recorded_conf;
  return settings.filter((setting, at) => top === 0 || at < top || compared(setting));
}

function settingsTable({ capacity, recorded_conf }: TuneReport, settings: readonly TunedSetting[]): string {
  const policies = new Set(settings.map(({ policy }) => policy)).size > 1;
  const head = ['settings', 'smallest', 'peak reserved', 'retries', 'segments', 'driver calls'];
  const rows = settings.map((setting) => {
    const name = `${setting.conf === '' ? 'none' : setting.conf}${policies ? ` (${setting.policy})` : ''}`;
    const recorded = setting.conf !== '' && setting.conf === recorded_conf ? ' (recorded)' : '';
    const row = [
      name + recorded,
      setting.smallest_capacity === null ? 'never' : formatSize(setting.smallest_capacity),
      formatSize(setting.peak_reserved),
      formatCount(setting.retries),
      formatCount(setting.segments),
      formatCount(setting.driver_calls),
    ];
    if (capacity !== null) row.push(setting.survives ? style.green('yes') : style.red('no'));
    return row;
  });
  if (capacity !== null) head.push('survives');
  return table(head, rows, ['left', 'right', 'right', 'right', 'right', 'right', 'left']);
}

function conclusion({ settings, recorded_conf, capacity }: TuneReport): string {
  const best = settings[0];
  if (best === undefined) return '';
  const none = settings.find(({ conf, policy }) => conf === '' && policy === best.policy);
  const before = settings.find(({ conf, policy }) => conf === recorded_conf && policy === best.policy) ?? none;
  if (capacity !== null && best.survives === false) {
    return style.red(
      `No setting survives ${formatSize(capacity)}; the best needs ${formatSize(best.smallest_capacity ?? 0)}.`,
    );
  }
  if (before !== undefined && !needsLess(best, before)) {
    return `Nothing that was tried needs less than ${before.conf === '' ? 'no settings' : before.conf}.`;
  }
  const saved = (before?.smallest_capacity ?? 0) - (best.smallest_capacity ?? 0);
  const gain = saved > 0 ? `, ${formatSize(saved)} less than ${before?.conf === '' ? 'without settings' : 'now'}` : '';
  return [
    `Best: fits on ${formatSize(best.smallest_capacity ?? 0)}${gain}. To use it:`,
    indent(style.green(lineToPaste(best))),
    ...notes(best),
    ...forOlderReleases(settings, best, before),
  ].join('\n');
}

/** Where the best needs options that came later: the best without them, if it helps too. */
function forOlderReleases(settings: readonly TunedSetting[], best: TunedSetting, before?: TunedSetting): string[] {
  if (best.policy !== 'pytorch' || isOld(best)) return [];
  const older = settings.find((setting) => setting.policy === 'pytorch' && isOld(setting));
  if (older === undefined || older.survives === false || (before !== undefined && !needsLess(older, before))) return [];
  const name = `${OLDER_RELEASE.major}.${OLDER_RELEASE.minor}`;
  return [
    `With options that PyTorch ${name} knows already: fits on ${formatSize(older.smallest_capacity ?? 0)}.`,
    indent(style.green(lineToPaste(older))),
  ];
}

/** The release whose options are verified in its source. */
const OLDER_RELEASE = { major: 2, minor: 4 };

function isOld({ conf }: TunedSetting): boolean {
  return keysOf(conf).every((key) => {
    const versions = optionVersions(key);
    return versions !== undefined && optionStatus(versions, OLDER_RELEASE) === 'accepted';
  });
}

function keysOf(conf: string): string[] {
  return [...conf.matchAll(/(?<=^|,)([a-z]\w*):/g)].map(([, key]) => key as string);
}

/** For a shell; lists are quoted, since brackets mean something there. */
function lineToPaste({ conf, policy }: TunedSetting): string {
  const quoted = /[[\]>]/.test(conf) ? `'${conf}'` : conf;
  if (policy !== 'pytorch') {
    return `export ${conf === '' ? '' : `CUDALLOC_CONF=${quoted} `}CUDALLOC_POLICY=${policy}`;
  }
  return `export ${settingsVariable(null).name}=${quoted}`;
}

function notes({ conf, policy }: TunedSetting): string[] {
  if (policy !== 'pytorch') return [`The policy ${policy} is this package's, not PyTorch's.`];
  const needs = keysOf(conf).flatMap((key) => {
    const versions = optionVersions(key);
    return versions === undefined ? [] : [`${key} needs PyTorch ${sinceWhen(versions)}`];
  });
  return [wrap(`(${needs.join('; ')}; ${settingsVariable(null).note})`)];
}
