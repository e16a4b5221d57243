// Where a command that writes a file puts it: the file that -o names, standard output, or a name beside the input. Knows names, not content.

import { existsSync } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { ConfigError } from '../errors.js';
import { writePieces } from '../snapshot/files.js';

/** What -o says for standard output. */
export const STDOUT = '-';

/**
 * The file to write: what -o says, else the input's name with another ending.
 * @throws ConfigError when the file is not named with -o and there is one already, or when --json needs standard output too
 */
export function outputOf(
  input: string,
  ending: string,
  { output, json = false }: { readonly output?: string | undefined; readonly json?: boolean | undefined },
): string {
  const refuse = (why: string) => new ConfigError(`--output: ${why}`, { key: 'output', value: output ?? null });
  if (output === STDOUT && json) throw refuse('- is standard output, where --json prints its document; name a file');
  if (output !== undefined) return output;
  const beside = `${input.replace(/\.gz$/i, '').replace(/\.(pickle|pkl|json|cudalloc)$/i, '')}${ending}`;
  if (existsSync(beside)) throw refuse(`${beside} is there already; name it with -o to replace it`);
  return beside;
}

/** Writes to a file or to standard output. @returns bytes written */
export async function writeOutput(
  pieces: Iterable<string | Uint8Array>,
  output: string,
  { binary }: { readonly binary: boolean },
): Promise<number> {
  if (output !== STDOUT) return writePieces(pieces, output);
  if (binary && process.stdout.isTTY === true) {
    throw new ConfigError('--output: this is binary, and standard output is a terminal; name a file', {
      key: 'output',
    });
  }
  let bytes = 0;
  const counted = function* (): Generator<string | Uint8Array> {
    for (const piece of pieces) {
      bytes += Buffer.byteLength(piece);
      yield piece;
    }
  };
  await pipeline(Readable.from(counted(), { objectMode: true }), process.stdout, { end: false });
  return bytes;
}
