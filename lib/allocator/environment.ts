// What the environment says about the settings of an allocator, and what of it was passed over. Must not know the keys.

import { ConfigError } from '../errors.js';
import type { Config } from './config.js';
import { parseConfig } from './config-parser.js';
import { warnProcess } from './process-warning.js';

export type Environment = Readonly<Record<string, string | undefined>>;

/** `process.env`, where there is a process. */
export function environment(): Environment {
  return (globalThis as { process?: { env?: Environment } }).process?.env ?? {};
}

/** A settings string and the environment variable it came from. */
export interface EnvironmentSettings {
  readonly text: string;
  readonly source: string;
  /** Other variables that are set too, to something else, and lost. */
  readonly overrides: readonly string[];
}

const VARIABLES = ['CUDALLOC_CONF', 'PYTORCH_ALLOC_CONF', 'PYTORCH_CUDA_ALLOC_CONF'];

/** The settings string of the environment: the first variable that is set; null when none is. */
export function settingsFromEnvironment(env: Environment): EnvironmentSettings | null {
  const set = VARIABLES.filter((name) => env[name] !== undefined);
  const source = set[0];
  if (source === undefined) return null;
  const text = env[source] as string;
  return { text, source, overrides: set.slice(1).filter((name) => env[name] !== text) };
}

/**
 * The settings of the environment; the defaults where it has none. Warns, once in a process for each text, of variables that lost and of
 * settings that only PyTorch can honour.
 * @throws ConfigError whose message starts with the variable
 */
export function configFromEnvironment(env: Environment): Config {
  const settings = settingsFromEnvironment(env);
  if (settings === null) return parseConfig(null);
  const { text, source, overrides } = settings;
  const config = parseNaming(source, text);
  for (const name of overrides) warnOnce(`${name} is ignored: ${source} is set too, to something else`);
  for (const warning of config.warnings) warnOnce(`${source}: ${warning}`);
  return config;
}

function parseNaming(source: string, text: string): Config {
  try {
    return parseConfig(text);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new ConfigError(`${source}: ${error.message}`, error);
  }
}

const warned = new Set<string>();

function warnOnce(text: string): void {
  if (warned.has(text)) return;
  warned.add(text);
  warnProcess(text, { type: 'CudallocWarning', code: 'CUDALLOC_SETTINGS' });
}
