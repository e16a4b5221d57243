// What people's settings strings contain that no parser accepts: quotes, shell leftovers, other blanks, other spellings. Finds them and says
// how to write it. Only looks at the text; whether the rest is right is the parser's to say.

/** A fault in a settings string. */
export interface SettingsFault {
  /** In characters from 0. */
  readonly position: number;
  readonly message: string;
}

interface Pattern {
  readonly expression: RegExp;
  readonly message: (found: string) => string;
}

const PATTERNS: readonly Pattern[] = [
  {
    // The shell's words before the settings themselves.
    expression: /^\s*(?:(?:set|export|setx)\s+)?["']?\s*[A-Z][A-Z_]*(?:CONF|CONFIG)\s*=/,
    message: (found) => `'${found.trim()}' belongs to the shell; the settings begin after it`,
  },
  { expression: /["'`“”‘’„«»]/, message: (found) => `the quote ${found} would become part of the settings` },
  {
    expression: /[\u00a0\u1680\u2000-\u200f\u2028\u2029\u202f\u205f\u2060\u3000\ufeff]/,
    message: (found) => `a blank that is not a plain space (U+${hex(found)})`,
  },
  { expression: /[\t\n\r\v\f]/, message: (found) => `a blank that is not a plain space (U+${hex(found)})` },
  { expression: /[：，；［］]/, message: (found) => `${found} (U+${hex(found)}) is not the plain sign : , [ or ]` },
  {
    expression: /(?<=:\s*)(?:true|false|TRUE|FALSE|yes|no|on|off)\b/,
    message: (found) => `${found}: PyTorch wants True or False, with a capital`,
  },
  { expression: /;/, message: () => 'options are separated by commas' },
  { expression: /(?<=^|,)\s*[a-z_0-9]+\s*=/, message: () => 'a key and its value are separated by a colon' },
];

function hex(text: string): string {
  return (text.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
}

/** The first of each kind, by position. Linear in the text for each kind. */
export function textFaults(text: string): SettingsFault[] {
  const faults: SettingsFault[] = [];
  for (const { expression, message } of PATTERNS) {
    const match = expression.exec(text);
    if (match === null) continue;
    const lead = match[0].length - match[0].trimStart().length;
    // A blank itself is the fault, not what leads to one.
    const position = lead === match[0].length ? match.index : match.index + lead;
    faults.push({ position, message: message(match[0]) });
  }
  return faults.sort((a, b) => a.position - b.position);
}

/** The option that a misspelled one was probably meant to be; null when none is near. */
export function nearestOption(word: string, options: readonly string[]): string | null {
  const normal = word.toLowerCase().replaceAll('-', '_');
  let best: { option: string; distance: number } | null = null;
  for (const option of options) {
    const distance = editDistance(normal, option);
    if (best === null || distance < best.distance) best = { option, distance };
  }
  return best !== null && best.distance <= Math.max(2, Math.floor(best.option.length / 5)) ? best.option : null;
}

/** Levenshtein's: letters to insert, delete or replace. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] as number) + 1, (next[j - 1] as number) + 1));
    }
    row = next;
  }
  return row[b.length] as number;
}
