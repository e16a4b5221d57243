// Counts what a set of random runs covered. Knows nothing of what is counted.

export class Coverage {
  readonly counts: Record<string, number> = {};

  add(what: string, n = 1): void {
    this.counts[what] = (this.counts[what] ?? 0) + n;
  }

  toString(): string {
    return Object.entries(this.counts)
      .sort()
      .map(([what, n]) => `${what} ${n}`)
      .join(', ');
  }
}
