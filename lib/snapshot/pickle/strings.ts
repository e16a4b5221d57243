// The strings of a pickle, each stored once: found again by their bytes, so that a string that occurs a million times is decoded once and
// compared as a number. Knows UTF-8, not opcodes.

/** UTF-8 that is none. `at`: the byte where it stops being. */
export class BadText extends Error {
  readonly at: number;

  constructor(at: number) {
    super(`bad UTF-8 at byte ${at}`);
    this.at = at;
  }
}

export class PickleStrings {
  readonly #bytes: Uint8Array;
  readonly #texts: string[] = [];
  readonly #numbers = new Map<string, number>();
  /** Different spellings in bytes: where each begins in the file, how long it is, and which string it is. */
  #starts = new Float64Array(256);
  #lengths = new Uint32Array(256);
  #strings = new Int32Array(256);
  #count = 0;
  /** Open addressing: a spelling plus one, or 0. */
  #slots = new Int32Array(1024);

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** The text of a string by its number. */
  text(number: number): string {
    return this.#texts[number] as string;
  }

  /** Number of a string. */
  intern(text: string): number {
    const known = this.#numbers.get(text);
    if (known !== undefined) return known;
    this.#numbers.set(text, this.#texts.length);
    return this.#texts.push(text) - 1;
  }

  /** Number of the string whose UTF-8 stands at a place of the file. Linear in its length. @throws BadText */
  internBytes(start: number, length: number): number {
    const mask = this.#slots.length - 1;
    for (let slot = this.#hash(start, length) & mask; ; slot = (slot + 1) & mask) {
      const found = (this.#slots[slot] as number) - 1;
      if (found === -1) return this.#add(start, length, slot);
      if (this.#equals(found, start, length)) return this.#strings[found] as number;
    }
  }

  #hash(start: number, length: number): number {
    let hash = length;
    for (let i = start; i < start + length; i++) hash = Math.imul(hash ^ (this.#bytes[i] as number), 0x01000193);
    return hash ^ (hash >>> 15);
  }

  #equals(spelling: number, start: number, length: number): boolean {
    if (this.#lengths[spelling] !== length) return false;
    const other = this.#starts[spelling] as number;
    for (let i = 0; i < length; i++) if (this.#bytes[other + i] !== this.#bytes[start + i]) return false;
    return true;
  }

  #add(start: number, length: number, slot: number): number {
    const string = this.intern(decodeUtf8(this.#bytes, start, length));
    const spelling = this.#count++;
    if (spelling === this.#starts.length) this.#grow();
    this.#starts[spelling] = start;
    this.#lengths[spelling] = length;
    this.#strings[spelling] = string;
    this.#slots[slot] = spelling + 1;
    if (this.#count * 2 > this.#slots.length) this.#rehash();
    return string;
  }

  #grow(): void {
    const starts = new Float64Array(this.#starts.length * 2);
    const lengths = new Uint32Array(this.#starts.length * 2);
    const strings = new Int32Array(this.#starts.length * 2);
    starts.set(this.#starts);
    lengths.set(this.#lengths);
    strings.set(this.#strings);
    this.#starts = starts;
    this.#lengths = lengths;
    this.#strings = strings;
  }

  #rehash(): void {
    const slots = new Int32Array(this.#slots.length * 2);
    const mask = slots.length - 1;
    for (let spelling = 0; spelling < this.#count; spelling++) {
      let slot = this.#hash(this.#starts[spelling] as number, this.#lengths[spelling] as number) & mask;
      while (slots[slot] !== 0) slot = (slot + 1) & mask;
      slots[slot] = spelling + 1;
    }
    this.#slots = slots;
  }
}

const units = new Uint16Array(4096);

/**
 * The text of UTF-8 bytes. Half a surrogate pair is accepted, as Python writes it. A TextDecoder would refuse that, and is slow for the
 * short strings that a snapshot is full of. @throws BadText
 */
export function decodeUtf8(bytes: Uint8Array, start: number, length: number): string {
  const end = start + length;
  let text = '';
  let count = 0;
  for (let at = start; at < end; ) {
    const first = bytes[at] as number;
    const width = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (width === 0 || at + width > end) throw new BadText(at);
    let code = width === 1 ? first : first & (0x7f >> width);
    for (let i = 1; i < width; i++) {
      const next = bytes[at + i] as number;
      if (next >> 6 !== 2) throw new BadText(at);
      code = (code << 6) | (next & 0x3f);
    }
    if ((width === 3 && code < 0x800) || (width === 4 && (code < 0x10000 || code > 0x10ffff))) throw new BadText(at);
    at += width;
    if (count > units.length - 2) {
      text += String.fromCharCode.apply(null, units.subarray(0, count) as unknown as number[]);
      count = 0;
    }
    if (code > 0xffff) {
      units[count++] = 0xd800 + ((code - 0x10000) >> 10);
      units[count++] = 0xdc00 + (code & 0x3ff);
    } else {
      units[count++] = code;
    }
  }
  return text + String.fromCharCode.apply(null, units.subarray(0, count) as unknown as number[]);
}
