// The font library has no types of its own.

declare module 'oled-font-5x7' {
  const font: {
    /** Pixels of a letter. */
    readonly width: number;
    readonly height: number;
    /** Columns of the letters, from the left, `width` of each; the lowest bit is the uppermost pixel. */
    readonly fontData: readonly number[];
    /** The letters in the order of `fontData`. */
    readonly lookup: readonly string[];
  };
  // biome-ignore lint/style/noDefaultExport: it is a CommonJS module
  export default font;
}
