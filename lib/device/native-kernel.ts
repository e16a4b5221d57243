// Kernel modules and launches: lays out the arguments as CUDA wants them. Knows the binding, not the device class.

import type { FunctionId, ModuleId } from '../../binding.js';
import { UseAfterFreeError } from '../errors.js';
import { checkOpen } from './check.js';
import { type NativeContext, NativeStream } from './native-stream.js';
import type { KernelArgument, KernelFunction, KernelModule, LaunchOptions } from './types.js';

export class NativeModule implements KernelModule {
  readonly #context: NativeContext;
  readonly #module: ModuleId;
  #unloaded = false;

  constructor(context: NativeContext, image: Uint8Array) {
    this.#context = context;
    this.#module = context.binding.moduleLoadData(context.id, image);
  }

  getFunction(name: string): KernelFunction {
    this.check();
    return new NativeFunction(
      this.#context,
      this,
      name,
      this.#context.binding.moduleGetFunction(this.#context.id, this.#module, name),
    );
  }

  unload(): void {
    if (this.#unloaded || this.#context.device.closed) return;
    this.#context.binding.moduleUnload(this.#context.id, this.#module);
    this.#unloaded = true;
  }

  /** @throws UseAfterFreeError when the module or its device is gone */
  check(): void {
    if (this.#unloaded) throw new UseAfterFreeError('the kernel module was unloaded');
    checkOpen(this.#context.device);
  }
}

class NativeFunction implements KernelFunction {
  readonly name: string;
  readonly #context: NativeContext;
  readonly #module: NativeModule;
  readonly #fn: FunctionId;

  constructor(context: NativeContext, module: NativeModule, name: string, fn: FunctionId) {
    this.#context = context;
    this.#module = module;
    this.name = name;
    this.#fn = fn;
  }

  launch(options: LaunchOptions, args: readonly KernelArgument[]): void {
    this.#module.check();
    const { binding, id, device } = this.#context;
    const dimensions = launchDimensions(options);
    const { parameters, offsets } = packArguments(args);
    binding.launchKernel(id, this.#fn, dimensions, NativeStream.idOf(options.stream, device), parameters, offsets);
  }
}

/** Grid x, y, z, block x, y, z, dynamic shared bytes. @throws RangeError */
export function launchDimensions({ grid, block, sharedMemory = 0 }: LaunchOptions): Uint32Array {
  const sizes = [grid[0], grid[1] ?? 1, grid[2] ?? 1, block[0], block[1] ?? 1, block[2] ?? 1];
  for (const size of sizes) checkInteger('a dimension', size, 1, 0xffffffff);
  checkInteger('sharedMemory', sharedMemory, 0, 0xffffffff);
  return Uint32Array.of(...sizes, sharedMemory);
}

/** The arguments' bytes, each at its natural alignment, and where each one starts. @throws RangeError */
export function packArguments(args: readonly KernelArgument[]): { parameters: Uint8Array; offsets: Uint32Array } {
  const parameters = new Uint8Array(args.length * 8);
  const view = new DataView(parameters.buffer);
  const offsets = new Uint32Array(args.length);
  let end = 0;
  args.forEach((argument, i) => {
    const bytes = argument.type.endsWith('32') ? 4 : 8;
    const offset = Math.ceil(end / bytes) * bytes;
    writeArgument(view, offset, argument);
    offsets[i] = offset;
    end = offset + bytes;
  });
  return { parameters: parameters.subarray(0, end), offsets };
}

function writeArgument(view: DataView, offset: number, argument: KernelArgument): void {
  const { type, value } = argument;
  switch (type) {
    case 'pointer':
    case 'u64':
      view.setBigUint64(offset, toBigInt(type, value, 0n, 2n ** 64n - 1n), true);
      break;
    case 'i64':
      view.setBigInt64(offset, toBigInt(type, value, -(2n ** 63n), 2n ** 63n - 1n), true);
      break;
    case 'u32':
      checkInteger(type, value, 0, 0xffffffff);
      view.setUint32(offset, value, true);
      break;
    case 'i32':
      checkInteger(type, value, -0x80000000, 0x7fffffff);
      view.setInt32(offset, value, true);
      break;
    case 'f32':
      view.setFloat32(offset, value, true);
      break;
    case 'f64':
      view.setFloat64(offset, value, true);
      break;
    default:
      throw new RangeError(`a kernel argument has the unknown type ${JSON.stringify(type)}`);
  }
}

function toBigInt(what: string, value: number | bigint, least: bigint, most: bigint): bigint {
  const integer = typeof value === 'bigint' ? value : Number.isSafeInteger(value) ? BigInt(value) : undefined;
  if (integer !== undefined && integer >= least && integer <= most) return integer;
  throw new RangeError(`${what}: ${String(value)} is not a whole number from ${least} to ${most}`);
}

function checkInteger(what: string, value: number, least: number, most: number): void {
  if (Number.isInteger(value) && value >= least && value <= most) return;
  throw new RangeError(`${what}: ${String(value)} is not a whole number from ${least} to ${most}`);
}
