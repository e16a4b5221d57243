// A made-up training run on the simulated device that fragments as real ones do: sequences of changing length, so that segments cut for one
// batch are too small for the next; gradients and optimizer states that come to lie in segments that activations have left; a validation
// pass; and at last a sequence for which there is no piece large enough, though gigabytes are free. Deterministic.

import { CachingAllocator } from '../dist/allocator/caching-allocator.js';
import { SimDevice } from '../dist/device/sim.js';
import { OutOfMemoryError } from '../dist/errors.js';
import { randomNumbers } from './support.mjs';

const GIB = 2 ** 30;
const HIDDEN = 1024;
const HEADS = 16;
const VOCABULARY = 32000;
const BATCH = 8;
const STEPS = 2;
const LONGEST = 1536;

/** One of the model's weights: bytes, and what became of it. */
class Parameter {
  gradient = 0;
  moments = [];

  constructor(memory, elements) {
    this.bytes = 4 * elements;
    this.data = memory.malloc(this.bytes);
  }
}

class Block {
  constructor(memory) {
    this.attention = [new Parameter(memory, 3 * HIDDEN * HIDDEN), new Parameter(memory, HIDDEN * HIDDEN)];
    this.mlp = [new Parameter(memory, 4 * HIDDEN * HIDDEN), new Parameter(memory, 4 * HIDDEN * HIDDEN)];
    this.norms = [new Parameter(memory, HIDDEN), new Parameter(memory, HIDDEN)];
  }

  get parameters() {
    return [...this.attention, ...this.mlp, ...this.norms];
  }
}

function layerNorm(memory, saved, tokens) {
  saved.push(memory.malloc(2 * tokens * HIDDEN), memory.malloc(4 * tokens));
}

function attention(memory, saved, tokens, length) {
  saved.push(memory.malloc(2 * 3 * tokens * HIDDEN));
  const scores = memory.malloc(2 * HEADS * tokens * length);
  saved.push(softmax(memory, tokens, length));
  memory.free(scores);
  saved.push(memory.malloc(2 * tokens * HIDDEN));
}

function softmax(memory, tokens, length) {
  return memory.malloc(2 * HEADS * tokens * length);
}

function mlp(memory, saved, tokens) {
  saved.push(gelu(memory, tokens));
  const out = memory.malloc(2 * tokens * HIDDEN);
  memory.free(out);
}

function gelu(memory, tokens) {
  return memory.malloc(2 * 4 * tokens * HIDDEN);
}

function forward(memory, blocks, length) {
  const tokens = BATCH * length;
  const layers = [];
  for (const _ of blocks) {
    const saved = [];
    layers.push(saved);
    layerNorm(memory, saved, tokens);
    attention(memory, saved, tokens, length);
    layerNorm(memory, saved, tokens);
    mlp(memory, saved, tokens);
  }
  return layers;
}

function crossEntropy(memory, length) {
  const tokens = BATCH * Math.min(length, 256);
  return [memory.malloc(2 * tokens * VOCABULARY), memory.malloc(4 * tokens * VOCABULARY)];
}

function accumulateGradient(memory, parameter) {
  if (parameter.gradient === 0) parameter.gradient = memory.malloc(parameter.bytes);
}

function backward(memory, blocks, layers, length) {
  const tokens = BATCH * length;
  for (let i = blocks.length - 1; i >= 0; i--) {
    const flowing = memory.malloc(2 * tokens * HIDDEN);
    for (const parameter of blocks[i].parameters) {
      const product = memory.malloc(parameter.bytes);
      accumulateGradient(memory, parameter);
      memory.free(product);
    }
    for (const address of layers[i].splice(0)) memory.free(address);
    memory.free(flowing);
  }
}

function optimizerStep(memory, blocks) {
  for (const block of blocks) {
    for (const parameter of block.parameters) {
      if (parameter.moments.length === 0)
        parameter.moments.push(memory.malloc(parameter.bytes), memory.malloc(parameter.bytes));
      const update = memory.malloc(parameter.bytes);
      memory.free(update);
    }
  }
}

function zeroGrad(memory, blocks) {
  for (const { parameters } of blocks) {
    for (const parameter of parameters) {
      if (parameter.gradient !== 0) memory.free(parameter.gradient);
      parameter.gradient = 0;
    }
  }
}

function keepMetrics(memory, kept) {
  kept.push(memory.malloc(3 * 2 ** 20));
}

/** Gradients stay from the first of the batches to the step of the optimizer. */
function accumulate(memory, blocks, length, kept) {
  const layers = forward(memory, blocks, length);
  const loss = crossEntropy(memory, length);
  backward(memory, blocks, layers, length);
  for (const address of loss) memory.free(address);
  keepMetrics(memory, kept);
}

/**
 * @param {{ events?: number, layers?: number, capacity?: number }} options `events`: go on until so many are recorded, and do not run out
 * @returns {import('../dist/snapshot/model.js').Snapshot}
 */
export function trainingRun({ events = 0, layers = 24, capacity = 14 * GIB } = {}) {
  const device = new SimDevice({ capacity: events > 0 ? 64 * GIB : capacity });
  const memory = new CachingAllocator({ device, policy: 'pytorch', conf: '' });
  const random = randomNumbers(7);
  memory.recordMemoryHistory({ maxEntries: Number.POSITIVE_INFINITY, stacks: true });
  const blocks = Array.from({ length: layers }, () => new Block(memory));
  const kept = [];
  try {
    for (let step = 0; step < STEPS || memory.history.total < events; step++) {
      for (const length of [192, 256, 320, 448]) accumulate(memory, blocks, length + 32 * random(4), kept);
      optimizerStep(memory, blocks);
      zeroGrad(memory, blocks);
      // What a log keeps for some steps.
      while (kept.length > 24) memory.free(kept.splice(random(kept.length), 1)[0]);
    }
    if (events === 0) for (const length of [192, 256, 320, 448, LONGEST]) accumulate(memory, blocks, length, kept);
  } catch (error) {
    if (!(error instanceof OutOfMemoryError)) throw error;
  }
  return memory.memorySnapshot();
}
