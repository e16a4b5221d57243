// Reads the words of a settings string in PyTorch's grammar, one after the other. Every refusal names key, value, position and what is
// accepted. Must not know the keys.

import { ConfigError } from '../errors.js';

/** A word or a punctuation mark, and where it stands in characters from 0. */
export interface Token {
  readonly text: string;
  readonly position: number;
}

/** Words and the punctuation `,:[]`; blanks are dropped wherever they are, as PyTorch does. */
function tokenize(text: string): Token[] {
  const tokens: Token[] = [];
  let word = '';
  let start = 0;
  const flush = (): void => {
    if (word !== '') tokens.push({ text: word, position: start });
    word = '';
  };
  for (let i = 0; i < text.length; i++) {
    const char = text[i] as string;
    if (',:[]'.includes(char)) {
      flush();
      tokens.push({ text: char, position: i });
    } else if (char !== ' ') {
      if (word === '') start = i;
      word += char;
    }
  }
  flush();
  return tokens;
}

export class SettingsReader {
  readonly #text: string;
  readonly #tokens: readonly Token[];
  readonly #lenient: boolean;
  #at = 0;
  /** The option being read. */
  key = '';
  /** Checks that need the whole string. */
  readonly whenRead: (() => void)[] = [];

  /** @param lenient ignores what follows the digits of a number, as PyTorch 2.4 does. */
  constructor(text: string, lenient: boolean) {
    this.#text = text;
    this.#tokens = tokenize(text);
    this.#lenient = lenient;
  }

  get atEnd(): boolean {
    return this.#at >= this.#tokens.length;
  }

  nextIs(text: string): boolean {
    return this.peek()?.text === text;
  }

  peek(): Token | undefined {
    return this.#tokens[this.#at];
  }

  take(): Token {
    const token = this.peek();
    if (token === undefined) return this.refuse({ text: '', position: this.#text.length }, 'a value');
    this.#at++;
    return token;
  }

  expect(text: string): void {
    const token = this.#tokens[this.#at];
    if (token?.text !== text) this.refuse(token ?? { text: '', position: this.#text.length }, `'${text}'`);
    this.#at++;
  }

  refuse(token: Token, accepted: string, key = this.key): never {
    const found = token.text === '' ? 'the end of the string' : `'${token.text}'`;
    const where = `at position ${token.position} of '${this.#text}'`;
    throw new ConfigError(`${key}: found ${found} ${where}; accepted is ${accepted}`, {
      key,
      value: token.text,
      position: token.position,
    });
  }

  unknownKey(token: Token, known: readonly string[]): never {
    throw new ConfigError(
      `unknown option '${token.text}' at position ${token.position} of '${this.#text}'; known are ${known.join(', ')}`,
      { key: token.text, position: token.position },
    );
  }

  integer(accepted: string, valid: (value: number) => boolean): number {
    const token = this.take();
    const match = (this.#lenient ? /^[+-]?\d+/ : /^\d+$/).exec(token.text);
    const value = match === null ? Number.NaN : Number(match[0]);
    if (!Number.isSafeInteger(value) || !valid(value)) this.refuse(token, accepted);
    return value;
  }

  number(accepted: string, valid: (value: number) => boolean): number {
    const token = this.take();
    const value = this.#lenient
      ? Number.parseFloat(token.text)
      : Number(/^[\d.eE+-]+$/.test(token.text) ? token.text : 'x');
    if (!Number.isFinite(value) || !valid(value)) this.refuse(token, accepted);
    return value;
  }

  boolean(): boolean {
    const token = this.take();
    if (token.text !== 'True' && token.text !== 'False') this.refuse(token, 'True or False, with a capital');
    return token.text === 'True';
  }
}
