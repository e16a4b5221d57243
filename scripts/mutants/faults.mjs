// Deliberate faults of the allocator and the pages below it: which text becomes which. Every one must be caught by a test. Knows nothing
// of how they are run (../mutants.mjs).

/** @typedef {{ fault: string, file: string, find: string, replace: string }} Fault */

/** @type {readonly Fault[]} */
export const FAULTS = [
  {
    fault: 'the split limit is ignored when a block is cut',
    file: 'allocator/heap.ts',
    find: 'rest >= this.#leastRest && units < this.#leastUnsplit',
    replace: 'rest >= this.#leastRest',
  },
  {
    fault: 'a rest of exactly 1 MiB is cut off in the large pool',
    file: 'allocator/heap.ts',
    find: '? 1 : SMALL_UNITS + 1',
    replace: '? 1 : SMALL_UNITS',
  },
  {
    fault: 'a freed block is not joined with the one before it',
    file: 'allocator/heap.ts',
    find: 'prev.state === FREE) {\n      let joined',
    replace: 'prev.state === PENDING) {\n      let joined',
  },
  {
    fault: 'a freed block is not joined with the one behind it',
    file: 'allocator/heap.ts',
    find: 'next.state === FREE) {\n      this.#unchain(block);',
    replace: 'next.state === PENDING) {\n      this.#unchain(block);',
  },
  {
    fault: 'a block of exactly the split limit serves requests below it',
    file: 'allocator/heap.ts',
    find: 'return block.units < this.#oversize;',
    replace: 'return block.units <= this.#oversize;',
  },
  {
    fault: 'an oversize block may be larger than the request by all of the allowance',
    file: 'allocator/heap.ts',
    find: 'return block.size < units',
    replace: 'return block.size <= units',
  },
  {
    fault: 'statistics do not see that a pending free completes',
    file: 'allocator/heap.ts',
    find: 'this.stats.noteDeferredDone(',
    replace: 'void (',
  },
  {
    fault: 'what joining leaves split is taken off instead of added',
    file: 'allocator/heap.ts',
    find: '+= joined.units;',
    replace: '-= joined.units;',
  },
  {
    fault: 'the peak of active bytes leaves out what is pending',
    file: 'allocator/stats.ts',
    find: 'if (this.#pending > 0) this.',
    replace: 'if (this.#pending < 0) this.',
  },
  {
    fault: 'a block is free although another stream uses it',
    file: 'allocator/caching-allocator.ts',
    find: 'block.streamUses !== null && this.#deferred.defer(block)',
    replace: 'false',
  },
  {
    fault: 'a block of 1 MiB goes to the large pool',
    file: 'allocator/caching-allocator.ts',
    find: 'units <= SMALL_UNITS ? this',
    replace: 'units < SMALL_UNITS ? this',
  },
  {
    fault: 'a block is free after the first of its events',
    file: 'allocator/deferred-frees.ts',
    find: 'if (--block.pendingEvents > 0) return;',
    replace: '',
  },
  {
    fault: 'an event is recorded on a stream that is being captured',
    file: 'allocator/deferred-frees.ts',
    find: 'streams.some((stream) => stream.isCapturing())',
    replace: 'false',
  },
  {
    fault: 'a request of exactly 10 MiB takes the segment of smaller ones',
    file: 'allocator/rounding.ts',
    find: 'size < MIN_LARGE_ALLOC',
    replace: 'size <= MIN_LARGE_ALLOC',
  },
  {
    fault: 'a request of exactly 1 MiB takes a large segment',
    file: 'allocator/rounding.ts',
    find: 'if (size <= SMALL_SIZE) return',
    replace: 'if (size < SMALL_SIZE) return',
  },
  {
    fault: 'divisions round down',
    file: 'allocator/rounding.ts',
    find: 'Math.ceil(size / step)',
    replace: 'Math.floor(size / step)',
  },
  {
    fault: 'of blocks of one size that of the youngest segment is taken',
    file: 'allocator/block.ts',
    find: 'a.sequence < b.sequence',
    replace: 'a.sequence > b.sequence',
  },
  {
    fault: 'of blocks of one size the highest in the segment is taken',
    file: 'allocator/block.ts',
    find: 'a.start < b.start',
    replace: 'a.start > b.start',
  },
  {
    fault: 'the age of a block goes on while it is in use',
    file: 'allocator/free-list.ts',
    find: 'block.ageBase = this.pool.searches;\n    if',
    replace: 'if',
  },
  {
    fault: 'a bin is left out of order when a block is taken from its middle',
    file: 'allocator/size-bins.ts',
    find: 'if (!rise(heap, last, place)) sink(heap, last, place);',
    replace: 'rise(heap, last, place);',
  },
  {
    fault: 'larger blocks are sought from the next size class on only',
    file: 'allocator/block-forest.ts',
    find: 'return best ?? this.#firstFrom(sizeClass + 1);\n  }\n\n  /** The block after',
    replace: 'return best ?? this.#firstFrom(sizeClass + 2);\n  }\n\n  /** The block after',
  },
  {
    fault: 'a search crosses streams',
    file: 'allocator/block-pool.ts',
    find: 'let list = this.byStream[stream.id];',
    replace: 'let list = this.byStream.find((other) => other !== undefined);',
  },
  {
    fault: 'everything is flushed before oversize blocks are released',
    file: 'allocator/retry-ladder.ts',
    find: '(this.#cached.releaseOversize(list, size) ? this.#allocate(list, size) : null) ??\n      this.#flushAndRetry(list, size)',
    replace:
      'this.#flushAndRetry(list, size) ??\n      (this.#cached.releaseOversize(list, size) ? this.#allocate(list, size) : null)',
  },
  {
    fault: 'the pool is not searched again after pending frees',
    file: 'allocator/retry-ladder.ts',
    find: 'waited && heap.policy.searchAfterEvents',
    replace: 'false',
  },
  {
    fault: 'the memory fraction may not be reached',
    file: 'allocator/retry-ladder.ts',
    find: 'heap.reserved + bytes > heap.limit',
    replace: 'heap.reserved + bytes >= heap.limit',
  },
  {
    fault: 'collection takes only what is older than the mean',
    file: 'allocator/cached-memory.ts',
    find: 'ageOf(block) >= mean',
    replace: 'ageOf(block) > mean',
  },
  {
    fault: 'a split segment is released as if it were whole',
    file: 'allocator/cached-memory.ts',
    find: 'else if (!block.isSplit) this.#plain.release(block);',
    replace: 'else this.#plain.release(block);',
  },
  {
    fault: 'pages are unmapped without waiting for the stream',
    file: 'allocator/expandable-segments.ts',
    find: '    else list.stream.synchronize();\n',
    replace: '',
  },
  {
    fault: 'growth that fails at the second hole keeps the first',
    file: 'allocator/expandable-segments.ts',
    find: 'fillings.slice(0, done)',
    replace: 'fillings.slice(0, 0)',
  },
  {
    fault: 'growth maps the whole hole',
    file: 'allocator/expandable-segments.ts',
    find: 'Math.min(size - reached, block.size)',
    replace: 'block.size',
  },
  {
    fault: 'a page that is partly in use is unmapped',
    file: 'pages/virtual-range.ts',
    find: 'const first = Math.ceil(offset',
    replace: 'const first = Math.floor(offset',
  },
  {
    fault: 'pages whose mapping failed are not given back',
    file: 'pages/virtual-range.ts',
    find: 'this.#pages.release(this.pageBytes, unused);',
    replace: '',
  },
  {
    fault: 'pages that the driver did not take back are lost',
    file: 'pages/physical-pages.ts',
    find: 'if (handle !== -1) kept.push(handle);',
    replace: '',
  },
  {
    fault: 'removing an address leaves its neighbours where they are not found',
    file: 'allocator/address-table.ts',
    find: '& mask) >= ((at - hole)',
    replace: '& mask) > ((at - hole)',
  },
];
