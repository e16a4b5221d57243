// What V8 adds to Error, which the allocator uses where it is there.

interface ErrorConstructor {
  stackTraceLimit: number;
  prepareStackTrace?: (error: Error, stackTraces: unknown) => unknown;
}
