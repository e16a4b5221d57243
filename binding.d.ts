// The border: every function the addon exports. native/addon/ implements it, one file per group below; lib/device/native.ts
// is the only caller.
//
// Conventions.
// - Sizes, offsets and addresses are bytes, as numbers (a value above 2^53 is refused at the border).
// - `DeviceId`, `StreamId`, `EventId`, `ModuleId`, `FunctionId` are small integers that belong to the calling environment
//   (main thread or worker); page handles are small integers that belong to the process. An unknown one throws.
// - Stream 0 is the default stream of the device.
// - Whatever an environment made and did not release is released when the environment ends.
// - Errors are `Error` objects with the properties of `BindingError`. Arguments of a wrong type throw TypeError; a size that is
//   no whole number from 0 (or 1) to 2^53 is `_INVALID_SIZE`, such an address `_INVALID_ADDRESS`.
// - Whatever would pull memory from under a copy on the thread pool (free, memUnmap, hostFree, streamDestroy, closeDevice, also
//   synchronize) waits for those copies first.
// - A call that would break the capture of one of this opening's streams is refused with `_CAPTURING` before it is made.
//   A call that throws has changed nothing, unless its comment says otherwise.

export interface BindingError extends Error {
  /** `ERR_CUDALLOC_DRIVER`, `_DEVICE_LOST`, `_ADDRESS_SPACE`, `_NO_DEVICE`, `_UNSUPPORTED`, `_CAPTURING`, `_CONFIG`, `_INVALID_SIZE`, `_INVALID_ADDRESS`, `_USE_AFTER_FREE`. */
  code: string;
  /** Present when a CUDA function failed: its name, the error's name and number. */
  fn?: string;
  cudaError?: string;
  cudaCode?: number;
}

export type BackendName = 'cuda' | 'mock';
export type DeviceId = number;
export type StreamId = number;
export type EventId = number;
export type ModuleId = number;
export type FunctionId = number;
export type PageHandle = number;

export interface Feature {
  works: boolean;
  /** Empty when it works. */
  reason: string;
}

export interface DeviceProperties {
  name: string;
  /** Lower-case hexadecimal with dashes; empty where the driver cannot say. */
  uuid: string;
  /** Bytes; the capacity where one was given. */
  totalMemory: number;
  computeCapability: [major: number, minor: number];
  multiprocessors: number;
  /** Bytes; 0 without virtual memory. */
  granularity: number;
  features: { virtualMemory: Feature; sharing: Feature; cudaMalloc: Feature; kernels: Feature };
}

/** Where other processes of the machine find an exported page. */
export interface PageExport {
  /** Process that has it. */
  process: number;
  /** Number of the file descriptor there. */
  descriptor: number;
  /** Number of a second one, whose file holds the token for as long as the first one is open. */
  witness: number;
  /** Never the same twice. */
  token: string;
}

/** What `doctor` prints about the CUDA backend; never throws for a missing driver. */
export interface DriverReport {
  /** The library that was loaded (`libcuda.so.1`), or empty. */
  driverLibrary: string;
  /** For example 12040; 0 when unknown. */
  driverVersion: number;
  /** `libcudart.so.12` and the like, or empty. */
  runtimeLibrary: string;
  runtimeVersion: number;
  /** Why there is no driver, runtime or device; empty when there is. */
  driverReason: string;
  runtimeReason: string;
  deviceReason: string;
  /** CUDA functions that the driver does not have. */
  missing: string[];
  devices: DeviceProperties[];
}

export interface Binding {
  // addon/device.cc -------------------------------------------------------------------------------------------------
  /** Version of this interface; the loader refuses another one. */
  readonly interfaceVersion: 1;
  driverReport(): DriverReport;
  /** Number of devices of a backend; 0 when there is no driver. */
  deviceCount(backend: BackendName): number;
  /**
   * @param index ordinal; -1 with `mock`: the lowest one that nobody has open.
   * @param capacity 0 for the default (`mock`) or for no limit (`cuda`). A device that is open in this process with another
   *   capacity, or a limit beyond the card: `_CONFIG`.
   */
  openDevice(backend: BackendName, index: number, capacity: number): DeviceId;
  deviceIndex(device: DeviceId): number;
  deviceProperties(device: DeviceId): DeviceProperties;
  /**
   * Waits for the work, then releases everything this environment made on it. `_CAPTURING`: nothing was done. After any other
   * error the device is closed all the same; a lost device or a driver that has shut down is none.
   */
  closeDevice(device: DeviceId): void;
  synchronize(device: DeviceId): void;
  /** Writes free and total bytes into `out`. */
  memGetInfo(device: DeviceId, out: Float64Array): void;
  /**
   * Calls into the CUDA functions for this opening; failed ones, also those that the capacity refuses, under `<name>_failed`
   * only. Not counted: what makes the context current and what asks for the texts of errors.
   */
  driverCalls(device: DeviceId): Record<string, number>;
  /** Number in, number out, nothing done: what a crossing costs. */
  identity(value: number): number;

  // addon/memory.cc -------------------------------------------------------------------------------------------------
  malloc(device: DeviceId, bytes: number): number;
  free(device: DeviceId, address: number): void;
  memcpyHtoD(device: DeviceId, address: number, source: Uint8Array, stream: StreamId): void;
  memcpyDtoH(device: DeviceId, target: Uint8Array, address: number, stream: StreamId): void;
  /** On a thread of the pool; the view is kept alive until the promise settles. */
  memcpyHtoDAsync(device: DeviceId, address: number, source: Uint8Array, stream: StreamId): Promise<void>;
  memcpyDtoHAsync(device: DeviceId, target: Uint8Array, address: number, stream: StreamId): Promise<void>;
  memcpyDtoD(device: DeviceId, target: number, source: number, bytes: number, stream: StreamId): void;
  memcpyPeer(
    device: DeviceId,
    targetDevice: DeviceId,
    target: number,
    source: number,
    bytes: number,
    stream: StreamId,
  ): void;
  memset(device: DeviceId, address: number, byte: number, bytes: number, stream: StreamId): void;
  /** V8 counts the buffer as external memory. `_UNSUPPORTED` where the runtime allows no such buffer, or none of that length. */
  hostAlloc(device: DeviceId, bytes: number): ArrayBuffer;
  /** Detaches the buffer. */
  hostFree(device: DeviceId, buffer: ArrayBuffer): void;
  canAccessPeer(device: DeviceId, peer: DeviceId): boolean;
  /** Covers what is mapped on `peer` now and later, by any environment, and its plain memory. Idempotent. */
  enablePeerAccess(device: DeviceId, peer: DeviceId): void;

  // addon/virtual_memory.cc -----------------------------------------------------------------------------------------
  addressReserve(device: DeviceId, bytes: number, alignment: number): number;
  addressFree(device: DeviceId, address: number, bytes: number): void;
  /**
   * Fills `handles` with new pages.
   * @param shareable for `memExport`; `_UNSUPPORTED` where that does not work.
   */
  memCreate(device: DeviceId, pageBytes: number, handles: Int32Array, shareable: boolean): void;
  /**
   * Maps each page, then sets access once. A failure unmaps what was mapped. A page that nobody had mapped belongs to this
   * environment from then on: it is released with it.
   */
  memMap(device: DeviceId, address: number, pageBytes: number, handles: Int32Array): void;
  /** A failure maps again what was unmapped. */
  memUnmap(device: DeviceId, address: number, pageBytes: number, count: number): void;
  /** Whole neighbouring mappings in one driver call. */
  memUnmapRange(device: DeviceId, address: number, bytes: number): void;
  /**
   * In order; each entry becomes -1 when released (entries that are -1 already are passed over). A failure stops there. A page
   * that is still mapped goes back to the driver with its last mapping.
   */
  memRelease(device: DeviceId, handles: Int32Array): void;

  // addon/offers.cc -------------------------------------------------------------------------------------------------
  /** How many environments of this process have the device open, each opening counted. */
  deviceOpenings(device: DeviceId): number;
  /**
   * Pages of this opening that it does not use: others of the device may take them from now on, whatever this thread does. They may be
   * mapped here. `_INVALID_ADDRESS` for pages of others and for those offered already; mapping and releasing them is refused too.
   */
  memOffer(device: DeviceId, handles: Int32Array): void;
  /** Takes offered pages back. Entries of pages that others have taken, and unmapped, become -1; returns their number. */
  memClaim(device: DeviceId, handles: Int32Array): number;
  /**
   * Fills `handles` with pages of that size that others have offered, and returns how many there were: they are mapped nowhere and this
   * opening's from now on. Waits for the device. A failure after the first page ends it without a word.
   */
  memTake(device: DeviceId, pageBytes: number, handles: Int32Array): number;
  /** Gives pages that others have offered back to the driver until so many bytes are free; returns the bytes. As `memTake`. */
  memTrim(device: DeviceId, bytes: number): number;
  /** Bytes that others have offered. */
  memOffered(device: DeviceId): number;
  /**
   * Called in this thread when another one asks for memory of the device; returns the bytes that were given back. Replaces the one before; null
   * ends it, as does closing. Does not keep the process alive. What it throws counts as 0.
   */
  onTrimRequest(device: DeviceId, listener: ((bytes: number) => number) | null): void;
  /** Asks the other threads; waits for their answers, at most so long. A thread that waits here itself is passed over. Returns the bytes given back. */
  requestTrim(device: DeviceId, bytes: number, timeoutMs: number): number;

  // addon/sharing.cc: `_UNSUPPORTED` where the feature `sharing` does not work ---------------------------------------
  /**
   * Where other processes find a shareable page of this opening: its descriptor, opened by the first call and closed when the page is
   * released. `_INVALID_ADDRESS` for a page that was not made shareable.
   */
  memExport(device: DeviceId, handle: PageHandle): PageExport;
  /**
   * A page of another process, of so many bytes; unmapped. Released as any other page; nothing of the capacity is taken for it. `_USE_AFTER_FREE` when
   * the other process shares it no more, `_UNSUPPORTED` when the kernel lets nobody take its descriptor.
   */
  memImport(
    device: DeviceId,
    bytes: number,
    process: number,
    descriptor: number,
    witness: number,
    token: string,
  ): PageHandle;
  /** The same behind a descriptor of this process, which stays open. */
  memImportDescriptor(device: DeviceId, bytes: number, descriptor: number): PageHandle;

  // addon/stream.cc -------------------------------------------------------------------------------------------------
  streamCreate(device: DeviceId, nonBlocking: boolean, priority: number): StreamId;
  /** @param handle a `CUstream` of this process. */
  streamWrap(device: DeviceId, handle: bigint): StreamId;
  streamHandle(device: DeviceId, stream: StreamId): number;
  streamSynchronize(device: DeviceId, stream: StreamId): void;
  streamSynchronizeAsync(device: DeviceId, stream: StreamId): Promise<void>;
  streamQuery(device: DeviceId, stream: StreamId): boolean;
  streamWaitEvent(device: DeviceId, stream: StreamId, event: EventId): void;
  streamIsCapturing(device: DeviceId, stream: StreamId): boolean;
  streamDestroy(device: DeviceId, stream: StreamId): void;
  eventCreate(device: DeviceId, timing: boolean): EventId;
  eventRecord(device: DeviceId, event: EventId, stream: StreamId): void;
  eventQuery(device: DeviceId, event: EventId): boolean;
  eventSynchronize(device: DeviceId, event: EventId): void;
  /** Milliseconds. */
  eventElapsedTime(device: DeviceId, start: EventId, end: EventId): number;
  eventDestroy(device: DeviceId, event: EventId): void;

  // addon/kernel.cc -------------------------------------------------------------------------------------------------
  moduleLoadData(device: DeviceId, image: Uint8Array): ModuleId;
  moduleUnload(device: DeviceId, module: ModuleId): void;
  moduleGetFunction(device: DeviceId, module: ModuleId, name: string): FunctionId;
  /**
   * @param dimensions grid x, y, z, block x, y, z, dynamic shared bytes.
   * @param parameters the arguments' bytes, each at its offset in `offsets`.
   */
  launchKernel(
    device: DeviceId,
    fn: FunctionId,
    dimensions: Uint32Array,
    stream: StreamId,
    parameters: Uint8Array,
    offsets: Uint32Array,
  ): void;

  // addon/mock_controls.cc: only for devices of the mock; `_UNSUPPORTED` on others -----------------------------------
  /** @param fn a CUDA function's name or `*`. @param error CUDA name, or decimal number as text. */
  mockFailNth(device: DeviceId, fn: string, n: number, error: string): void;
  mockClearFailures(device: DeviceId): void;
  mockHoldEvents(device: DeviceId, hold: boolean): void;
  /** @param stream -1 for all. */
  mockCompleteEvents(device: DeviceId, stream: StreamId): void;
  mockTakeByOthers(device: DeviceId, bytes: number): void;
  mockLoseDevice(device: DeviceId, error: string): void;
  mockSetCapturing(device: DeviceId, stream: StreamId, capturing: boolean): void;
  mockCounters(device: DeviceId): Record<string, number>;
  mockResetCounters(device: DeviceId): void;
}
