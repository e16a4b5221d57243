// Colours and tables of the terminal output. Knows nothing of what is printed.

import Table from 'cli-table3';
import pc from 'picocolors';

/** Colours only where a person looks: stdout is a terminal and NO_COLOR is not set (FORCE_COLOR overrides the first). */
export const style = pc.createColors(wantsColor());

function wantsColor(): boolean {
  const { NO_COLOR, FORCE_COLOR, TERM } = process.env;
  if (NO_COLOR !== undefined && NO_COLOR !== '') return false;
  if (FORCE_COLOR !== undefined && FORCE_COLOR !== '') return FORCE_COLOR !== '0';
  return process.stdout.isTTY === true && TERM !== 'dumb';
}

const PLACES = [
  'top',
  'top-mid',
  'top-left',
  'top-right',
  'bottom',
  'bottom-mid',
  'bottom-left',
  'bottom-right',
  'left',
  'left-mid',
  'mid',
  'mid-mid',
  'right',
  'right-mid',
];
const NO_LINES = { ...Object.fromEntries(PLACES.map((place) => [place, ''])), middle: '  ' };

/** Columns side by side without lines. @param align by column; left when left out. */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  align: readonly ('left' | 'right')[] = [],
): string {
  const lines = new Table({
    head: head.map((cell) => style.bold(cell)),
    chars: NO_LINES,
    colAligns: [...align],
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
  });
  lines.push(...rows.map((row) => [...row]));
  return lines
    .toString()
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n');
}

/** Indents every line. */
export function indent(text: string, by = '  '): string {
  return text
    .split('\n')
    .map((line) => (line === '' ? line : by + line))
    .join('\n');
}

/** Breaks text at spaces into lines of at most `width` characters. */
export function wrap(text: string, width = 100): string {
  return text
    .split('\n')
    .map((line) => wrapLine(line, width))
    .join('\n');
}

function wrapLine(text: string, width: number): string {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  return [...lines, line].join('\n');
}

/** 1234567 as 1,234,567. */
export function formatCount(n: number): string {
  return n.toLocaleString('en-US');
}
