// Pages of CUDA or of the mock that several processes map.

import { checkBytes, checkCount, checkOpen } from './check.js';
import type { NativeContext } from './native-stream.js';
import type { PageExport, PageSharing } from './types.js';

export class NativePageSharing implements PageSharing {
  readonly #context: NativeContext;

  constructor(context: NativeContext) {
    this.#context = context;
  }

  createPage(bytes: number): number {
    checkBytes(bytes);
    const handles = new Int32Array(1);
    const { binding, id } = this.#open();
    binding.memCreate(id, bytes, handles, true);
    return handles[0] as number;
  }

  exportPage(handle: number): PageExport {
    const { binding, id } = this.#open();
    return binding.memExport(id, handle);
  }

  importPage(bytes: number, source: PageExport | number): number {
    checkBytes(bytes);
    const { binding, id } = this.#open();
    if (typeof source === 'number') {
      checkCount(source, 'descriptor');
      return binding.memImportDescriptor(id, bytes, source);
    }
    const { process, descriptor, witness, token } = source;
    return binding.memImport(id, bytes, process, descriptor, witness, token);
  }

  #open(): NativeContext {
    checkOpen(this.#context.device);
    return this.#context;
  }
}
