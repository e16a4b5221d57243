// The options of an allocator and of its requests, and what stands in for those left out. Must not know what they do.

import type { Device, Stream } from '../device/types.js';
import { ConfigError } from '../errors.js';
import { type Config, completeConfig } from './config.js';
import { parseConfig } from './config-parser.js';
import { configFromEnvironment, type Environment } from './environment.js';
import type { SegmentOrder } from './heap.js';
import type { MemPool } from './mem-pool.js';
import type { DumpOnOutOfMemory } from './oom-dump.js';
import { isPolicyName, type Mends, makePolicy, POLICY_NAMES, type Policy, type PolicyName } from './policy.js';

export interface AllocatorOptions {
  readonly device: Device;
  /** A settings string as PyTorch's, or settings; left out: from the environment (`CUDALLOC_CONF`, `PYTORCH_ALLOC_CONF`, `PYTORCH_CUDA_ALLOC_CONF`). */
  readonly conf?: string | Partial<Config>;
  /** Default `default`; `CUDALLOC_POLICY` changes that default. */
  readonly policy?: PolicyName;
  /** Switches single differences of the policy from PyTorch. */
  readonly mends?: Partial<Mends>;
  /** Order of segments; left out: that of their creation. For replays. @internal */
  readonly segmentOrder?: SegmentOrder;
  /**
   * Writes a snapshot when a request runs out of memory: the state when it first ran short, before cached memory was given back for it,
   * and the recorded events, the out of memory last. A string is the path. The error's `details.snapshot` names the file; a failure to
   * write becomes its `cause`. While it is on, a request that runs short costs time linear in blocks, and one that fails also in the
   * history.
   */
  readonly dumpOnOutOfMemory?: string | DumpOnOutOfMemory;
  /** Warn about buffers that were collected without `free`. Default true. */
  readonly leakWarnings?: boolean;
}

export interface AllocateOptions {
  /** Default: the device's default stream. */
  readonly stream?: Stream;
  /** Default: the one of `withMemPool`, else the default pools. */
  readonly pool?: MemPool;
  /** The memory may be moved while nobody has its address: by `compact`, and before a request fails. Default false. */
  readonly movable?: boolean;
  /**
   * Other processes may map the memory, too: `exportHandle` of the buffer says how. It has pages of its own, in whole granules of the device (2 MiB), which
   * neither come from the cache nor return to it, and which `pause` leaves alone. Freeing it is synchronising. Default false.
   */
  readonly shareable?: boolean;
}

export interface AllocateAsyncOptions extends AllocateOptions {
  readonly signal?: AbortSignal;
}

/** @throws ConfigError */
export function configFrom(options: AllocatorOptions, env: Environment): Config {
  const conf = options.conf ?? null;
  if (conf === null) return configFromEnvironment(env);
  if (typeof conf === 'string') return parseConfig(conf);
  if (typeof conf !== 'object')
    throw new ConfigError('conf is a settings string or an object', { key: 'conf', value: String(conf) });
  return completeConfig(conf);
}

/** @throws ConfigError */
export function policyFrom(options: AllocatorOptions, env: Environment): Policy {
  const name = options.policy ?? env.CUDALLOC_POLICY ?? 'default';
  if (!isPolicyName(name)) {
    const source = name === options.policy ? '' : 'CUDALLOC_POLICY: ';
    throw new ConfigError(`${source}there is no policy '${name}'; accepted is ${POLICY_NAMES}`, {
      key: 'policy',
      value: name,
    });
  }
  return makePolicy(name, options.mends);
}
