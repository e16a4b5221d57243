// A picture in memory, with the few things that are drawn outside of a browser: rectangles, other pictures, text of a small bitmap font. Must
// not know what it shows.

import { encode } from 'fast-png';
import font from 'oled-font-5x7';
import { pixelOf } from '../palette.js';

/** Each pixel of the font is a square of this side. */
const SCALE = 2;
/** Pixels from the start of a letter to that of the next. */
export const LETTER = (font.width + 1) * SCALE;
export const LINE = (font.height + 3) * SCALE;

/** What the font lacks and people write. */
const INSTEAD: Readonly<Record<string, string>> = { '…': '...', '–': '-', '’': "'", '↑': '^' };

export class Canvas {
  readonly width: number;
  readonly height: number;
  /** Row by row from the top. */
  readonly pixels: Int32Array;

  constructor(width: number, height: number, background: string) {
    this.width = width;
    this.height = height;
    this.pixels = new Int32Array(width * height).fill(pixelOf(background));
  }

  rectangle(x: number, y: number, width: number, height: number, colour: string): void {
    const pixel = pixelOf(colour);
    const left = Math.max(0, Math.round(x));
    const right = Math.min(this.width, Math.round(x + width));
    for (let row = Math.max(0, Math.round(y)); row < Math.min(this.height, Math.round(y + height)); row++)
      if (right > left) this.pixels.fill(pixel, row * this.width + left, row * this.width + right);
  }

  /** @param pixels `width` to a row */
  picture(x: number, y: number, width: number, pixels: Int32Array): void {
    for (let row = 0; row * width < pixels.length; row++)
      this.pixels.set(pixels.subarray(row * width, (row + 1) * width), (y + row) * this.width + x);
  }

  /** One line; what the font has no letter for is a question mark. @param x its left edge, or its right one, or its middle */
  text(text: string, x: number, y: number, colour: string, align: 'left' | 'right' | 'middle' = 'left'): void {
    const letters = [...[...text].map((letter) => INSTEAD[letter] ?? letter).join('')];
    const width = letters.length * LETTER - SCALE;
    let left = Math.round(align === 'left' ? x : align === 'right' ? x - width : x - width / 2);
    for (const letter of letters) {
      this.#letter(letter, left, y, colour);
      left += LETTER;
    }
  }

  /** The picture as a PNG file. */
  png(): Uint8Array {
    return encode({ width: this.width, height: this.height, data: new Uint8Array(this.pixels.buffer), channels: 4 });
  }

  #letter(letter: string, x: number, y: number, colour: string): void {
    const found = font.lookup.indexOf(letter);
    const index = found === -1 ? font.lookup.indexOf('?') : found;
    for (let column = 0; column < font.width; column++) {
      const bits = font.fontData[index * font.width + column] ?? 0;
      for (let row = 0; row < font.height; row++)
        if ((bits >>> row) & 1) this.rectangle(x + column * SCALE, y + row * SCALE, SCALE, SCALE, colour);
    }
  }
}

/** At most so many letters; what is cut ends in dots. */
export function cut(text: string, letters: number): string {
  return text.length <= letters ? text : `${text.slice(0, Math.max(1, letters - 3))}...`;
}
