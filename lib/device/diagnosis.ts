// What is there on this machine and what works, found out by trying. Collects facts for `doctor`; prints nothing and never
// throws for a missing driver, device or addon.

import type { Binding, DeviceProperties, DriverReport } from '../../binding.js';
import { AddressSpaceError } from '../errors.js';
import { formatSize } from '../units.js';
import { addonPath, libc, loadAddon, platform } from './native-addon.js';
import { openDevice, whyNoDevice } from './open.js';
import type { Device, Feature } from './types.js';

/** Whether something works, why not (empty when it does), and what was found in trying it. */
export interface Probe {
  readonly works: boolean;
  readonly reason: string;
  readonly detail: string;
}

export interface Diagnosis {
  readonly node: string;
  readonly platform: string;
  readonly libc: string;
  readonly addon: { readonly path: string; readonly works: boolean; readonly reason: string };
  /** Null without the addon. */
  readonly driver: DriverReport | null;
  readonly devices: readonly DeviceProperties[];
  /** What `openDevice()` takes here; null when it throws. */
  readonly auto: 'cuda' | 'mock' | null;
  readonly features: Readonly<Record<FeatureName, Probe>>;
}

export type FeatureName =
  | 'cuda'
  | 'mock'
  | 'sim'
  | 'expandable_segments'
  | 'sharing'
  | 'cuda_malloc'
  | 'copies'
  | 'pinned_memory'
  | 'kernels';

const HALVINGS = 8;

/** Cost: opens a device of each backend; with a GPU that creates a CUDA context. */
export function diagnose(): Diagnosis {
  const { binding, addon } = findAddon();
  const driver = binding === null ? null : binding.driverReport();
  const devices = driver?.devices ?? [];
  const auto = binding === null ? null : devices.length > 0 ? 'cuda' : 'mock';
  return {
    node: process.version,
    platform: platform(),
    libc: libc(),
    addon,
    driver,
    devices,
    auto,
    features: {
      cuda: probeCuda(driver),
      mock: binding === null ? no(NO_ADDON) : onDevice('mock', tryMemory),
      sim: onDevice('sim', (device) => {
        device.free(device.malloc(device.granularity));
        return yes('accounting only, holds no bytes');
      }),
      ...deviceFeatures(auto),
    },
  };
}

const NO_ADDON = 'the addon is missing';

function findAddon(): { binding: Binding | null; addon: Diagnosis['addon'] } {
  let path = '';
  try {
    path = addonPath();
    return { binding: loadAddon(), addon: { path, works: true, reason: '' } };
  } catch (error) {
    return { binding: null, addon: { path, works: false, reason: messageOf(error) } };
  }
}

function probeCuda(driver: DriverReport | null): Probe {
  if (driver === null) return no(NO_ADDON);
  return driver.devices.length === 0 ? no(whyNoDevice(driver)) : onDevice('cuda', tryMemory);
}

function deviceFeatures(
  backend: 'cuda' | 'mock' | null,
): Pick<
  Diagnosis['features'],
  'expandable_segments' | 'sharing' | 'cuda_malloc' | 'copies' | 'pinned_memory' | 'kernels'
> {
  const probe = (attempt: (device: Device) => Probe) => (backend === null ? no(NO_ADDON) : onDevice(backend, attempt));
  return {
    expandable_segments: probe(tryExpandableSegments),
    sharing: probe(trySharing),
    cuda_malloc: probe(({ features }) => fromFeature(features.cudaMalloc, 'segments come from cudaMalloc')),
    copies: probe(tryCopies),
    pinned_memory: probe((device) => {
      device.hostFree(device.hostAlloc(4096));
      return yes('');
    }),
    kernels: probe(({ features }) => fromFeature(features.kernels, '')),
  };
}

/** Opens a device, tries something on it and closes it again; what it throws is the reason why it does not work. */
function onDevice(backend: 'cuda' | 'mock' | 'sim', attempt: (device: Device) => Probe): Probe {
  try {
    const device = openDevice({ backend });
    try {
      const { works, reason, detail } = attempt(device);
      const where = `on ${backend} device ${device.index}`;
      return { works, reason, detail: works ? [detail, where].filter(Boolean).join(', ') : '' };
    } finally {
      device.close();
    }
  } catch (error) {
    return no(messageOf(error));
  }
}

function tryMemory(device: Device): Probe {
  const { free, total } = device.memGetInfo();
  device.free(device.malloc(2 * 1024 * 1024));
  return yes(`${formatSize(free)} of ${formatSize(total)} free`);
}

function tryCopies(device: Device): Probe {
  const sent = Uint8Array.from({ length: 4096 }, (_, i) => (i * 31) % 251);
  const received = new Uint8Array(sent.length);
  const address = device.malloc(sent.length);
  device.memcpyHtoD(address, sent);
  device.memcpyDtoH(received, address);
  device.free(address);
  const wrong = sent.findIndex((byte, i) => byte !== received[i]);
  return wrong === -1 ? yes('') : no(`byte ${wrong} came back as ${received[wrong]} where ${sent[wrong]} was sent`);
}

/** Reserves the addresses of an expandable segment, nine eighths of the device, less where the driver refuses, and maps a page. */
function tryExpandableSegments(device: Device): Probe {
  const { virtualMemory } = device.features;
  if (!virtualMemory.works) return no(virtualMemory.reason);
  const pageBytes = device.granularity;
  const wanted = Math.ceil((device.totalMemory * 9) / 8 / pageBytes) * pageBytes;
  const { address, bytes, refused } = reserveStepwise(device, wanted, pageBytes);
  const page = new Int32Array(1);
  device.memCreate(pageBytes, page);
  device.memMap(address, pageBytes, page);
  device.memUnmap(address, pageBytes, 1);
  device.memRelease(page);
  device.addressFree(address, bytes);
  const instead = refused === '' ? '' : `; ${formatSize(wanted)} were refused (${refused})`;
  return yes(`${formatSize(bytes)} of addresses reserved${instead}`);
}

/** Exports a page, and imports it again. */
function trySharing({ granularity, features, sharing }: Device): Probe {
  if (sharing === null) return fromFeature(features.sharing, '');
  const made = sharing.createPage(granularity);
  sharing.importPage(granularity, sharing.exportPage(made));
  return yes('pages are exported as file descriptors');
}

function reserveStepwise(
  device: Device,
  wanted: number,
  unit: number,
): { address: number; bytes: number; refused: string } {
  let refused = '';
  for (let step = 0; ; step++) {
    const bytes = Math.max(unit, Math.floor(wanted / 2 ** step / unit) * unit);
    try {
      return { address: device.addressReserve(bytes), bytes, refused };
    } catch (error) {
      if (!(error instanceof AddressSpaceError) || step === HALVINGS) throw error;
      refused ||= error.cudaError;
    }
  }
}

function fromFeature(feature: Feature, detail: string): Probe {
  return feature.works ? yes(detail) : no(feature.reason);
}

function yes(detail: string): Probe {
  return { works: true, reason: '', detail };
}

function no(reason: string): Probe {
  return { works: false, reason, detail: '' };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
