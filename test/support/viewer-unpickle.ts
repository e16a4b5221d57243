// Reads pickles with the opcodes that PyTorch's memory viewer page knows (torch/utils/viz/MemoryViz.js) and no others: what it refuses, people
// see as an empty page. Dicts become plain objects, as there.

type Value = unknown;

const utf8 = new TextDecoder();

export function viewerUnpickle(bytes: Uint8Array): Value {
  return new ViewerReader(bytes).read();
}

class ViewerReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #stack: Value[] = [];
  readonly #marks: number[] = [];
  readonly #memo = new Map<number, Value>();
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  read(): Value {
    for (;;) {
      const opcode = this.#byte();
      if (opcode === 0x2e) return this.#stack.pop();
      this.#step(opcode);
    }
  }

  #step(opcode: number): void {
    const push = (value: Value) => void this.#stack.push(value);
    const top = () => this.#stack.at(-1);
    switch (opcode) {
      case 0x80: {
        const protocol = this.#byte();
        if (protocol < 2 || protocol > 4) throw new Error(`protocol ${protocol}`);
        return;
      }
      case 0x28:
        return void this.#marks.push(this.#stack.length);
      case 0x5d:
      case 0x29:
        return push([]);
      case 0x7d:
        return push({});
      case 0x4e:
        return push(null);
      case 0x88:
      case 0x89:
        return push(opcode === 0x88);
      case 0x4b:
        return push(this.#byte());
      case 0x4d:
        return push(this.#byte() + 256 * this.#byte());
      case 0x4a:
        this.#at += 4;
        return push(this.#view.getInt32(this.#at - 4, true));
      case 0x47:
        this.#at += 8;
        return push(this.#view.getFloat64(this.#at - 8));
      case 0x8a:
        return push(this.#long(this.#byte()));
      case 0x8c:
        return push(this.#text(this.#byte()));
      case 0x58:
        return push(this.#text(this.#uint32()));
      case 0x68:
        return push(this.#memo.get(this.#byte()));
      case 0x6a:
        return push(this.#memo.get(this.#uint32()));
      case 0x71:
        return void this.#memo.set(this.#byte(), top());
      case 0x72:
        return void this.#memo.set(this.#uint32(), top());
      case 0x65: {
        const items = this.#popMark();
        if (items.length > 50_000) throw new Error('more items at once than a call has arguments');
        return void (top() as Value[]).push(...items);
      }
      case 0x75: {
        const items = this.#popMark();
        for (let i = 0; i < items.length; i += 2) (top() as Record<string, Value>)[items[i] as string] = items[i + 1];
        return;
      }
      case 0x74:
        return push(this.#popMark());
      case 0x85:
      case 0x86:
      case 0x87:
        return push(this.#stack.splice(-(opcode - 0x84)));
      default:
        throw new Error(`opcode 0x${opcode.toString(16)} at byte ${this.#at - 1}`);
    }
  }

  #byte(): number {
    return this.#bytes[this.#at++]!;
  }

  #uint32(): number {
    this.#at += 4;
    return this.#view.getUint32(this.#at - 4, true);
  }

  #text(length: number): string {
    this.#at += length;
    return utf8.decode(this.#bytes.subarray(this.#at - length, this.#at));
  }

  #long(width: number): number | bigint {
    if (width === 0) throw new Error('an integer without bytes');
    let value = 0n;
    for (let i = 0; i < width; i++) value |= BigInt(this.#byte()) << BigInt(8 * i);
    value = BigInt.asIntN(8 * width, value);
    return width <= 8 ? Number(value) : value;
  }

  #popMark(): Value[] {
    return this.#stack.splice(this.#marks.pop()!);
  }
}
