// Loads the addon, once and only when asked, and says what is wrong when it cannot be. The only file that does. Knows the
// package's folders and nothing of devices.

import { existsSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Binding } from '../../binding.js';
import { AddonMissingError } from '../errors.js';
import { translateErrors } from './native-error.js';

const INTERFACE_VERSION = 1;

/** The package's folder: this file sits two levels below it, as source and compiled. */
export const PACKAGE_ROOT = fileURLToPath(new URL('../..', import.meta.url));

interface NodeGypBuild {
  (directory: string): unknown;
  resolve(directory: string): string;
}

const require = createRequire(import.meta.url);
let loaded: Binding | undefined;

/** The addon's functions. Cost: loads a shared library the first time. @throws AddonMissingError */
export function loadAddon(): Binding {
  loaded ??= translateErrors(load());
  return loaded;
}

/** Path of the file that is or would be loaded. @throws AddonMissingError */
export function addonPath(): string {
  try {
    return (require('node-gyp-build') as NodeGypBuild).resolve(PACKAGE_ROOT);
  } catch (cause) {
    throw missing('there is no addon file for this platform', cause);
  }
}

/** `linux-x64`. */
export function platform(): string {
  return `${process.platform}-${process.arch}`;
}

/** `glibc 2.36`, `musl`; empty where neither is in use. */
export function libc(): string {
  if (process.platform !== 'linux') return '';
  const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
  return header.glibcVersionRuntime === undefined ? 'musl' : `glibc ${header.glibcVersionRuntime}`;
}

/** The command that builds the addon from the sources, as the reader of the message has to type it. */
export function buildCommand(): string {
  // The repository has the TypeScript configuration, the published package does not.
  return existsSync(join(PACKAGE_ROOT, 'tsconfig.json')) ? 'npm run build' : 'npx cudalloc build';
}

function load(): Binding {
  const path = addonPath();
  let addon: Partial<Binding>;
  try {
    addon = require(path) as Partial<Binding>;
  } catch (cause) {
    throw missing(`${path} could not be loaded`, cause);
  }
  if (addon.interfaceVersion !== INTERFACE_VERSION) {
    const version = String(addon.interfaceVersion);
    throw missing(
      `${path} has interface version ${version} where ${INTERFACE_VERSION} is needed: it was built from other sources`,
    );
  }
  return addon as Binding;
}

function missing(what: string, cause?: unknown): AddonMissingError {
  const supported = /^linux-(x64|arm64)$/.test(platform()) && libc() !== 'musl';
  const lines = [
    `The native addon of cudalloc is not usable: ${what}.`,
    `  platform: ${platform()}${libc() === '' ? '' : ` (${libc()})`}, Node ${process.versions.node}`,
    `  tried: ${pathsTried().join(', ')}`,
  ];
  if (cause !== undefined) lines.push(`  reason: ${firstLine(cause)}`);
  lines.push(
    supported
      ? `Build it with: ${buildCommand()}`
      : "The addon exists for Linux with glibc on x64 and arm64 only. The simulated device (backend: 'sim') and all tools work here.",
  );
  return new AddonMissingError(lines.join('\n'), { cause });
}

function pathsTried(): string[] {
  const folders = [join('build', 'Release'), join('build', 'Debug'), join('prebuilds', platform())];
  return folders.map((folder) => {
    // The variable that node-gyp-build reads to look in another place.
    const path = join(process.env.CUDALLOC_PREBUILD || PACKAGE_ROOT, folder);
    const files = existsSync(path) ? readdirSync(path).filter((name) => name.endsWith('.node')) : [];
    return files.length === 0 ? `${path} (no .node file)` : files.map((name) => join(path, name)).join(', ');
  });
}

function firstLine(cause: unknown): string {
  return (cause instanceof Error ? cause.message : String(cause)).split('\n')[0] ?? '';
}
