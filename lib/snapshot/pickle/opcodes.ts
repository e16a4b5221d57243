// The opcodes of Python's pickle format, protocols 0 to 5, by name: for messages, and to tell an opcode that is refused from a byte that
// is none. Source: the comments of Python's own pickletools module. Knows nothing of what they do.

/** The newest protocol there is. */
export const NEWEST_PROTOCOL = 5;

const NAMES = `28 MARK 29 EMPTY_TUPLE 2e STOP 30 POP 31 POP_MARK 32 DUP 42 BINBYTES 43 SHORT_BINBYTES 46 FLOAT 47 BINFLOAT 49 INT 4a BININT
  4b BININT1 4c LONG 4d BININT2 4e NONE 50 PERSID 51 BINPERSID 52 REDUCE 53 STRING 54 BINSTRING 55 SHORT_BINSTRING 56 UNICODE 58 BINUNICODE
  5d EMPTY_LIST 61 APPEND 62 BUILD 63 GLOBAL 64 DICT 65 APPENDS 67 GET 68 BINGET 69 INST 6a LONG_BINGET 6c LIST 6f OBJ 70 PUT 71 BINPUT
  72 LONG_BINPUT 73 SETITEM 74 TUPLE 75 SETITEMS 7d EMPTY_DICT 80 PROTO 81 NEWOBJ 82 EXT1 83 EXT2 84 EXT4 85 TUPLE1 86 TUPLE2 87 TUPLE3
  88 NEWTRUE 89 NEWFALSE 8a LONG1 8b LONG4 8c SHORT_BINUNICODE 8d BINUNICODE8 8e BINBYTES8 8f EMPTY_SET 90 ADDITEMS 91 FROZENSET
  92 NEWOBJ_EX 93 STACK_GLOBAL 94 MEMOIZE 95 FRAME 96 BYTEARRAY8 97 NEXT_BUFFER 98 READONLY_BUFFER`;

const words = NAMES.split(/\s+/);
const names = new Map<number, string>();
for (let i = 0; i < words.length; i += 2) names.set(Number.parseInt(words[i] as string, 16), words[i + 1] as string);

/** The name of an opcode, null for a byte that is none. */
export function opcodeName(code: number): string | null {
  return names.get(code) ?? null;
}
