// `cudalloc doctor`: prints what is there, what is missing and what works, with the reason. Finds nothing out itself.

import type { Command } from 'commander';
import type { DeviceProperties } from '../../../binding.js';
import { type Diagnosis, diagnose, type Probe } from '../../device/diagnosis.js';
import { buildCommand } from '../../device/native-addon.js';
import { whyNoDevice } from '../../device/open.js';
import { formatSize } from '../../units.js';
import { style, table } from '../render/style.js';

export function register(program: Command): void {
  program
    .command('doctor')
    .description('says which driver, devices and features are there, what works and what does not, and why')
    .option('--json', 'print one JSON document on stdout')
    .action((options: { json?: boolean }) => {
      const diagnosis = diagnose();
      const text = options.json ? JSON.stringify(toJson(diagnosis), null, 2) : render(diagnosis);
      process.stdout.write(`${text}\n`);
    });
}

function toJson({ node, platform, libc, addon, driver, devices, auto, features }: Diagnosis): unknown {
  return {
    node,
    platform,
    libc,
    addon,
    driver: {
      library: driver?.driverLibrary ?? '',
      version: driver?.driverVersion ?? 0,
      reason: driver === null ? features.cuda.reason : driver.driverReason,
      missing: driver?.missing ?? [],
    },
    runtime: {
      library: driver?.runtimeLibrary ?? '',
      version: driver?.runtimeVersion ?? 0,
      reason: driver === null ? features.cuda.reason : driver.runtimeReason,
    },
    devices: devices.map(deviceToJson),
    auto,
    features,
  };
}

function deviceToJson(device: DeviceProperties, index: number): unknown {
  const { virtualMemory, sharing, cudaMalloc, kernels } = device.features;
  return {
    index,
    name: device.name,
    uuid: device.uuid,
    total_memory: device.totalMemory,
    compute_capability: device.computeCapability.join('.'),
    multiprocessors: device.multiprocessors,
    granularity: device.granularity,
    features: { virtual_memory: virtualMemory, sharing, cuda_malloc: cudaMalloc, kernels },
  };
}

function render(diagnosis: Diagnosis): string {
  const { devices, features } = diagnosis;
  const parts = [table([], facts(diagnosis))];
  if (devices.length > 0) parts.push(table(['CUDA device', 'memory', 'compute', 'uuid'], devices.map(deviceRow)));
  const rows = Object.entries(features).map(([name, probe]) => [mark(probe), name.replaceAll('_', ' '), textOf(probe)]);
  parts.push(table([], rows), summary(diagnosis));
  return parts.join('\n\n');
}

function facts({ node, platform, libc, addon, driver }: Diagnosis): string[][] {
  const rows = [
    ['Node', node],
    ['platform', libc === '' ? platform : `${platform} (${libc})`],
    ['addon', addon.works ? addon.path : style.red(addon.reason)],
  ];
  if (driver === null) return rows;
  rows.push(
    ['driver', found(driver.driverLibrary, driver.driverVersion, driver.driverReason)],
    ['runtime', found(driver.runtimeLibrary, driver.runtimeVersion, driver.runtimeReason)],
  );
  if (driver.missing.length > 0) rows.push(['not in driver', driver.missing.join(', ')]);
  if (driver.driverLibrary !== '' && driver.devices.length === 0)
    rows.push(['CUDA devices', `none: ${whyNoDevice(driver)}`]);
  return rows;
}

function found(library: string, version: number, reason: string): string {
  if (library === '') return `none: ${reason}`;
  const cuda = version === 0 ? '' : ` (CUDA ${Math.floor(version / 1000)}.${Math.floor((version % 1000) / 10)})`;
  return `${library}${cuda}${reason === '' ? '' : `: ${reason}`}`;
}

function deviceRow(device: DeviceProperties, index: number): string[] {
  return [`${index}: ${device.name}`, formatSize(device.totalMemory), device.computeCapability.join('.'), device.uuid];
}

function mark({ works }: Probe): string {
  return works ? style.green('yes') : style.yellow('no');
}

function textOf({ works, reason, detail }: Probe): string {
  return works ? detail : reason;
}

function summary({ auto }: Diagnosis): string {
  if (auto === 'cuda') return 'openDevice() takes CUDA device 0 here.';
  if (auto === 'mock') return 'openDevice() takes the CPU mock here: everything runs, on memory of this machine.';
  return `openDevice() takes nothing here: only the simulated device works. The addon is built by: ${style.bold(buildCommand())}`;
}
