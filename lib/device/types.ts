// The one interface everything above talks to: device memory, virtual memory, streams, events, copies. A leaf: types,
// and the names that calls are counted by. CUDA and the CPU mock (native.ts) and the simulated device (sim.ts) implement it. Addresses and sizes are bytes.

/** Which implementation is behind a device. */
export type Backend = 'cuda' | 'mock' | 'sim';

/** Whether a feature works on this device, and if not, why not in one sentence. */
export type Feature = { readonly works: true } | { readonly works: false; readonly reason: string };

/** What a device may lack. */
export interface DeviceFeatures {
  /** `cuMemAddressReserve`, `cuMemCreate`, `cuMemMap`: needed by expandable segments. */
  readonly virtualMemory: Feature;
  /** Pages can be mapped by several processes (`cuMemExportToShareableHandle` with POSIX file descriptors). */
  readonly sharing: Feature;
  /** Segments come from `cudaMalloc` of a CUDA runtime library; otherwise from `cuMemAlloc` of the same context. */
  readonly cudaMalloc: Feature;
  /** Bytes can be copied in and out (the simulated device has none). */
  readonly copies: Feature;
  /** `cuModuleLoadData` and `cuLaunchKernel`. */
  readonly kernels: Feature;
}

/** Free and total bytes of the device, as `cudaMemGetInfo` reports them. */
export interface MemoryInfo {
  readonly free: number;
  readonly total: number;
}

/** A queue of work on one device. */
export interface Stream {
  readonly device: Device;
  /** 0 for the default stream; others ascend in the order in which they were made or wrapped. */
  readonly id: number;
  /** The `CUstream` as a number (0 for the default stream), for FFI and kernels. */
  readonly handle: number;
  /** Waits for all work of this stream. Synchronising. */
  synchronize(): void;
  /** True when all work has completed. */
  query(): boolean;
  /** Later work of this stream waits for the event. */
  waitEvent(event: Event): void;
  /** True while the stream is being captured into a graph. */
  isCapturing(): boolean;
  /** True after `destroy`. Its work runs to the end, but it cannot be waited for any more. */
  readonly destroyed: boolean;
  /** Destroys the stream (a wrapped one is only forgotten, the default one stays). Idempotent. */
  destroy(): void;
}

/** A point in a stream's work. */
export interface Event {
  record(stream: Stream): void;
  /** True when everything before the point has completed (or nothing was recorded). */
  query(): boolean;
  /** Waits for it. */
  synchronize(): void;
  /** Milliseconds between `earlier` and this event; both made with `timing: true`, both complete. */
  elapsedTimeMs(earlier: Event): number;
  /** Idempotent. */
  destroy(): void;
}

/** A loaded kernel module. */
export interface KernelModule {
  getFunction(name: string): KernelFunction;
  unload(): void;
}

/** One argument of a kernel: its type and value. */
export type KernelArgument =
  | { readonly type: 'pointer' | 'u64' | 'i64'; readonly value: number | bigint }
  | { readonly type: 'u32' | 'i32' | 'f32' | 'f64'; readonly value: number };

/** Grid and block dimensions, dynamic shared memory in bytes, stream. */
export interface LaunchOptions {
  readonly grid: readonly [number, number?, number?];
  readonly block: readonly [number, number?, number?];
  readonly sharedMemory?: number;
  readonly stream?: Stream;
}

export interface KernelFunction {
  readonly name: string;
  launch(options: LaunchOptions, args: readonly KernelArgument[]): void;
}

/** What `driverCalls()` always has, as 0 when nothing was called. Reports of replays have exactly these, in this order. */
export const DRIVER_CALLS = [
  'cudaMalloc',
  'cudaMalloc_failed',
  'cudaFree',
  'cudaMemGetInfo',
  'cudaEventCreate',
  'cudaEventRecord',
  'cudaEventQuery',
  'cudaEventSynchronize',
  'cudaStreamSynchronize',
  'cudaDeviceSynchronize',
  'cuMemAddressReserve',
  'cuMemAddressFree',
  'cuMemCreate',
  'cuMemCreate_failed',
  'cuMemRelease',
  'cuMemMap',
  'cuMemUnmap',
  'cuMemSetAccess',
] as const;

/** Number of calls by CUDA function name; failed calls are under `<name>_failed` only. */
export type DriverCallCounts = Readonly<Record<string, number>>;

/** What only a stand-in can do: make things go wrong, hold time still. Present on the mock and on the simulated device. */
export interface MockControls {
  /**
   * The `n`th call from now of a CUDA function (`'cuMemCreate'`, `'cudaMalloc'`, ... or `'*'` for any call) fails, once.
   * @param n 1 for the next call.
   * @param error CUDA name (`'CUDA_ERROR_OUT_OF_MEMORY'`) or number; out of memory when left out.
   */
  failNth(fn: string, n: number, error?: string | number): void;
  /** Takes back every injected failure that has not happened yet. */
  clearFailures(): void;
  /** Events recorded from now on stay pending until completed. */
  holdEvents(): void;
  /** Completes all pending events, or those of one stream; holding goes on. */
  completeEvents(stream?: Stream): void;
  /** Completes all pending events and stops holding. */
  releaseEvents(): void;
  /** Another process takes (negative: gives back) so many bytes of the device. */
  takeByOthers(bytes: number): void;
  /** Every call from now on fails as on a device that is gone. */
  loseDevice(error?: string | number): void;
  /** Marks a stream as being captured into a graph, or not any more. */
  setCapturing(stream: Stream, capturing: boolean): void;
  /** Calls received by the stand-in, since the device was opened or the counts were reset. */
  counters(): DriverCallCounts;
  resetCounters(): void;
}

/** Free pages of one device, for the other threads of the process that have it open. */
export interface PageOffers {
  /** Whether there may be others: there are some now, or this is a worker, which could not learn of a later one while it waits. */
  readonly shared: boolean;
  /**
   * These pages are not in use here, though maybe mapped: others may take them from now on, whatever this thread does. Until they are claimed they
   * can neither be mapped nor released here. @throws InvalidAddressError for pages of others, and those offered already
   */
  offer(handles: Int32Array): void;
  /** Takes offered pages back. Entries of those that others have taken, and unmapped, become -1; returns their number. */
  claim(handles: Int32Array): number;
  /** Fills `handles` with pages of that size that others have offered, mapped nowhere; returns how many there were. Synchronising. */
  take(pageBytes: number, handles: Int32Array): number;
  /** Gives pages that others have offered back to the driver until so many bytes are free; returns the bytes. Synchronising. */
  trim(bytes: number): number;
  /** Bytes that others have offered. Linear in pages. */
  bytes(): number;
}

/** Where other processes of the machine find a page: a file descriptor of the process that made it. Plain data, to be sent as such. */
export interface PageExport {
  /** Number of that process. */
  readonly process: number;
  /** Number of the descriptor there. */
  readonly descriptor: number;
  /** Number of a second descriptor there, whose file holds the token for as long as the page is shared. */
  readonly witness: number;
  /** Never the same twice. */
  readonly token: string;
}

/** Physical memory that several processes map. Its pages are mapped, unmapped and released as others are, in each process on its own. */
export interface PageSharing {
  /** A page of so many bytes, a multiple of the granularity, that may be exported. @throws DeviceOutOfMemoryError */
  createPage(bytes: number): number;
  /** Where other processes find a page of `createPage`, until it is released. The same every time. */
  exportPage(handle: number): PageExport;
  /**
   * A page of another process. It lives until all processes have released it, and takes nothing of this device's capacity.
   * @param source a number: a descriptor of this process, which stays open
   * @throws UseAfterFreeError when the other process has released it or ended, UnsupportedError when the kernel does not let descriptors be taken
   */
  importPage(bytes: number, source: PageExport | number): number;
}

/** Gives back memory that is not in use, about so many bytes, and says how many. */
export type TrimListener = (bytes: number) => number;

/** How those who hold memory of one device ask each other to give back what they do not use. */
export interface TrimRequests {
  /** Returns the function that ends it. A listener does not keep the process alive. */
  listen(listener: TrimListener): () => void;
  /**
   * Asks the listeners of the device but `asking`, those of other threads too; a thread that is busy is waited for a tenth of a second. Returns the
   * bytes given back. A listener that throws has given nothing.
   */
  ask(bytes: number, asking: TrimListener): number;
}

/**
 * One opened device. Every method throws a `CudallocError` subclass when the driver refuses, and has then changed nothing.
 * All calls are made in the device's primary context.
 */
export interface Device {
  readonly backend: Backend;
  /** Ordinal of the device in its backend. */
  readonly index: number;
  readonly name: string;
  /** The same in every process that sees this card; empty where there is none. */
  readonly uuid: string;
  /** Total bytes: the card's, or the capacity it was opened with. */
  readonly totalMemory: number;
  /** Smallest unit of physical memory that can be mapped (2 MiB); 0 where there is no virtual memory. */
  readonly granularity: number;
  readonly features: DeviceFeatures;
  readonly defaultStream: Stream;
  readonly closed: boolean;
  /** Present on the mock and the simulated device. */
  readonly mock?: MockControls;
  /** What the threads that have the device open leave to each other; null on the simulated device, which is one thread's. */
  readonly offers: PageOffers | null;
  readonly trimRequests: TrimRequests;
  /** Null where the feature `sharing` does not work. */
  readonly sharing: PageSharing | null;

  memGetInfo(): MemoryInfo;

  /** `cudaMalloc` (or `cuMemAlloc`). @throws DeviceOutOfMemoryError */
  malloc(bytes: number): number;
  /** `cudaFree`. */
  free(address: number): void;

  /** Reserves addresses with nothing behind them. @throws AddressSpaceError when the driver refuses the range. */
  addressReserve(bytes: number, alignment?: number): number;
  addressFree(address: number, bytes: number): void;
  /**
   * Creates `handles.length` physical pages of `pageBytes` each and writes their handles. All or none.
   * @throws DeviceOutOfMemoryError
   */
  memCreate(pageBytes: number, handles: Int32Array): void;
  /** Maps the pages one after the other from `address` on, then gives read and write access in one call. All or none. */
  memMap(address: number, pageBytes: number, handles: Int32Array): void;
  /** Unmaps `count` pages from `address` on. All or none. */
  memUnmap(address: number, pageBytes: number, count: number): void;
  /** Unmaps whole neighbouring mappings in one call: what lies between `address` and `address + bytes`. All or none. */
  memUnmapRange(address: number, bytes: number): void;
  /** Gives physical pages back, in order. Entries are set to -1 as they go, so after an error the rest can be tried again. */
  memRelease(handles: Int32Array): void;

  /** @param options.nonBlocking not ordered with the default stream; true when left out. */
  createStream(options?: { readonly nonBlocking?: boolean; readonly priority?: number }): Stream;
  /** A stream made by another library in this process. The caller keeps owning it. */
  wrapStream(handle: number | bigint): Stream;
  createEvent(options?: { readonly timing?: boolean }): Event;
  /** Waits for all work of the device. */
  synchronize(): void;

  /** Host to device. Ordered on `stream`; returns when `source` may be reused. Synchronising. */
  memcpyHtoD(address: number, source: Uint8Array, stream?: Stream): void;
  /** Device to host. Ordered on `stream`; returns when the bytes are there. Synchronising. */
  memcpyDtoH(target: Uint8Array, address: number, stream?: Stream): void;
  /**
   * The same without blocking this thread. Until the promise settles the view must not be changed, nor its buffer transferred.
   * @throws TypeError for a resizable buffer, whose memory may go away meanwhile
   */
  memcpyHtoDAsync(address: number, source: Uint8Array, stream?: Stream): Promise<void>;
  memcpyDtoHAsync(target: Uint8Array, address: number, stream?: Stream): Promise<void>;
  /** Device to device, ordered on `stream`, not waiting. */
  memcpyDtoD(target: number, source: number, bytes: number, stream?: Stream): void;
  /** From this device to another one of the same backend, ordered on this device's `stream`, not waiting. */
  memcpyPeer(targetDevice: Device, target: number, source: number, bytes: number, stream?: Stream): void;
  /** Sets bytes, ordered on `stream`, not waiting. */
  memset(address: number, byte: number, bytes: number, stream?: Stream): void;
  /** Settles when all work of `stream` so far has completed. */
  streamSynchronizeAsync(stream: Stream): Promise<void>;

  /** Pinned host memory. The buffer is detached by `hostFree`. */
  hostAlloc(bytes: number): ArrayBuffer;
  hostFree(buffer: ArrayBuffer): void;

  canAccessPeer(peer: Device): boolean;
  /** Lets this device read and write `peer`'s memory: what is mapped there now and later. Idempotent. */
  enablePeerAccess(peer: Device): void;

  loadModule(image: Uint8Array): KernelModule;

  /** Calls made into the CUDA functions through this device, by name. */
  driverCalls(): DriverCallCounts;
  /** Releases everything that was made through this object. Idempotent. */
  close(): void;
  [Symbol.dispose](): void;
}

export interface OpenDeviceOptions {
  /** `auto`: CUDA if there is a device, else the mock. `CUDALLOC_BACKEND` overrides `auto`. Default `auto`. */
  readonly backend?: Backend | 'auto';
  /** Ordinal. Default 0; for `mock` and `sim` left out: a fresh device of its own. A mock index given is shared by all who give it. */
  readonly index?: number;
  /** Bytes. On CUDA a limit on what is used of the card; on the others the size of the device (default 16 GiB). */
  readonly capacity?: number;
}
