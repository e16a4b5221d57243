// What distinguishes the policies: the places where PyTorch is plainly wrong, each a switch. Only names and values.

/** Each is false in `pytorch`, true in `default` and `paged`. */
export interface Mends {
  /**
   * After waiting for pending events the pool is searched again before anything is flushed. PyTorch flushes, and may fail although the
   * block has just become free.
   */
  readonly searchAfterEvents: boolean;
  /**
   * Free blocks of expandable segments are reused whatever `max_split_size_mb` says, since they are always split. PyTorch passes them
   * over, and reserved memory grows without end.
   */
  readonly oversizeIgnoresExpandable: boolean;
  /** Growth over several holes maps all of them or none. PyTorch keeps what was mapped before the failure until the next flush. */
  readonly growthIsAtomic: boolean;
  /** No addresses are reserved for a request larger than the device. PyTorch reserves another range at every attempt. */
  readonly reservesWithinDevice: boolean;
  /** Before a request fails, the other allocators of the process on the same device give back what they do not use. PyTorch's has a process to itself. */
  readonly asksOthers: boolean;
  /** Before a request fails, movable buffers are copied together. PyTorch's tensors cannot move. */
  readonly compactsOnPressure: boolean;
}

export interface Policy extends Mends {
  readonly name: PolicyName;
  /** Memory is held in pages that are put behind whatever addresses need them. */
  readonly paged: boolean;
}

export type PolicyName = 'pytorch' | 'default' | 'paged';

export const POLICIES = ['pytorch', 'default', 'paged'] as const satisfies readonly PolicyName[];

/** For messages. */
export const POLICY_NAMES = 'pytorch, default or paged';

const MENDED: Mends = {
  searchAfterEvents: true,
  oversizeIgnoresExpandable: true,
  growthIsAtomic: true,
  reservesWithinDevice: true,
  asksOthers: true,
  compactsOnPressure: true,
};

const MENDS: Readonly<Record<PolicyName, Mends>> = {
  pytorch: {
    searchAfterEvents: false,
    oversizeIgnoresExpandable: false,
    growthIsAtomic: false,
    reservesWithinDevice: false,
    asksOthers: false,
    compactsOnPressure: false,
  },
  default: MENDED,
  paged: MENDED,
};

export function isPolicyName(name: string): name is PolicyName {
  return Object.hasOwn(MENDS, name);
}

/** A policy by name, with single mends switched otherwise. */
export function makePolicy(name: PolicyName, mends: Partial<Mends> = {}): Policy {
  return { ...MENDS[name], ...mends, name, paged: name === 'paged' };
}
