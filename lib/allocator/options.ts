// The options of an allocator and of its requests, and what the environment says about them.

import type { Device, Stream } from '../device/types.js';
import { ConfigError } from '../errors.js';
import { type Config, completeConfig, parseConfig, settingsFromEnvironment } from './config.js';
import type { MemPool } from './mem-pool.js';
import { isPolicyName, type Mends, makePolicy, type Policy, type PolicyName } from './policy.js';

export interface AllocatorOptions {
  readonly device: Device;
  /** A settings string as PyTorch's, or settings; left out: from the environment (`CUDALLOC_CONF`, `PYTORCH_ALLOC_CONF`, `PYTORCH_CUDA_ALLOC_CONF`). */
  readonly conf?: string | Partial<Config>;
  /** Default `default`; `CUDALLOC_POLICY` changes that default. */
  readonly policy?: PolicyName;
  /** Switches single differences of the policy from PyTorch. */
  readonly mends?: Partial<Mends>;
  /** Warn about buffers that were collected without `free`. Default true. */
  readonly leakWarnings?: boolean;
}

export interface AllocateOptions {
  /** Default: the device's default stream. */
  readonly stream?: Stream;
  /** Default: the one of `withMemPool`, else the default pools. */
  readonly pool?: MemPool;
}

export interface AllocateAsyncOptions extends AllocateOptions {
  readonly signal?: AbortSignal;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** `process.env`, where there is a process. */
export function environment(): Environment {
  return (globalThis as { process?: { env?: Environment } }).process?.env ?? {};
}

/** @throws ConfigError */
export function configFrom(options: AllocatorOptions, env: Environment): Config {
  const conf = options.conf ?? settingsFromEnvironment(env)?.text ?? null;
  if (typeof conf === 'string' || conf === null) return parseConfig(conf);
  if (typeof conf !== 'object')
    throw new ConfigError('conf is a settings string or an object', { key: 'conf', value: String(conf) });
  return completeConfig(conf);
}

/** @throws ConfigError */
export function policyFrom(options: AllocatorOptions, env: Environment): Policy {
  const name = options.policy ?? env.CUDALLOC_POLICY ?? 'default';
  if (!isPolicyName(name)) {
    throw new ConfigError(`there is no policy '${name}'; accepted is pytorch or default`, {
      key: 'policy',
      value: name,
    });
  }
  return makePolicy(name, options.mends);
}
