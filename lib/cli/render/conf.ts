// The check of a settings string for people: what is wrong and where, what each option does, what it would change. Pure text.

import type { SettingsCheck, TorchCheck } from '../../analysis/conf/settings-check.js';
import type { TunedSetting } from '../../analysis/tune/tune.js';
import { formatSize } from '../../units.js';
import { formatCount, indent, style, table, wrap } from './style.js';

/** A workload without and with the settings. Bytes. */
export interface SettingsOnWorkload {
  readonly file: string;
  readonly allocations: number;
  readonly fidelity: { readonly allocations: number; readonly exact: number } | null;
  readonly capacity: number | null;
  readonly without: TunedSetting;
  readonly with: TunedSetting;
}

/** The JSON document of `cudalloc conf`. */
export interface ConfReport extends SettingsCheck {
  readonly trace: SettingsOnWorkload | null;
}

export function renderConf(report: ConfReport): string {
  const parts = [verdict(report)];
  for (const { position, message } of report.faults) parts.push(pointAt(report.text, position, message));
  for (const { key, value, meaning, since } of report.options) {
    parts.push(`${style.bold(`${key}:${value}`)} (${since})\n${indent(wrap(meaning, 96))}`);
  }
  if (report.warnings.length > 0) {
    parts.push(report.warnings.map((warning) => style.yellow(wrap(`Note: ${warning}`))).join('\n'));
  }
  if (report.torch !== null) parts.push(torchPart(report.torch));
  if (report.trace !== null) parts.push(effect(report.trace));
  return parts.join('\n\n');
}

function verdict({ accepted, conf, text, torch }: ConfReport): string {
  if (conf === null) return style.red('Refused.');
  const by = torch === null ? '' : ` by PyTorch ${torch.version}`;
  if (!accepted) return style.red(`Refused${by}.`);
  const short = conf === text.trim() ? '' : ` In short: ${conf === '' ? "'' (the defaults)" : conf}`;
  const unsure = torch?.accepted === 'not verified' ? ` Not all of it was verified for PyTorch ${torch.version}.` : '';
  return `${style.green('Accepted.')}${unsure}${short}`;
}

/** The string with a mark under the place. */
function pointAt(text: string, position: number, message: string): string {
  // One line, each character one wide, so that the mark stands right.
  const line = text.replace(/[\t\n\r\v\f]/g, ' ');
  const short = message.replace(` at position ${position} of '${text}'`, '');
  return `${indent(line)}\n${indent(`${' '.repeat(position)}${style.red('^')}`)}\n${wrap(short)}`;
}

function torchPart({ version, accepted, options, known, notes }: TorchCheck): string {
  const colour = { accepted: style.green, refused: style.red, 'not verified': style.yellow };
  const lines = options.map(({ key, status, reason }) => `${colour[status](status)}: ${key} (${reason})`);
  return [
    `${style.bold(`PyTorch ${version}`)}: ${colour[accepted](accepted)}`,
    ...lines.map((line) => indent(line)),
    indent(wrap(`accepts: ${known.join(', ')}`, 96)),
    ...notes.map((note) => indent(wrap(note, 96))),
  ].join('\n');
}

function effect({ file, allocations, fidelity, capacity, without, with: having }: SettingsOnWorkload): string {
  const row = (name: string, cell: (setting: TunedSetting) => string) => [name, cell(without), cell(having)];
  const rows = [
    row('smallest device', (setting) =>
      setting.smallest_capacity === null ? 'never' : formatSize(setting.smallest_capacity),
    ),
    row('peak reserved', (setting) => formatSize(setting.peak_reserved)),
    row('segments', (setting) => formatCount(setting.segments)),
    row('driver calls', (setting) => formatCount(setting.driver_calls)),
    row('retries', (setting) => formatCount(setting.retries)),
    row('retries on the smallest', (setting) => formatCount(setting.at_smallest?.retries ?? 0)),
  ];
  if (capacity !== null) {
    rows.push(row(`survives ${formatSize(capacity)}`, (setting) => (setting.survives ? 'yes' : 'no')));
  }
  const on =
    fidelity === null
      ? ''
      : `; ${formatCount(fidelity.exact)} of ${formatCount(fidelity.allocations)} placements as recorded`;
  const parts = [
    `${style.bold(file)} (${formatCount(allocations)} requests${on})`,
    table(['', 'without', 'with'], rows, ['left', 'right', 'right']),
  ];
  if (having.reason !== null) parts.push(wrap(`Never triggered: ${having.reason}`));
  return parts.join('\n');
}
