#!/bin/sh
# Builds the C++ tests and runs them: scripts/native-tests.sh [--sanitize | --sanitize=thread] [further arguments of ctest]
# --sanitize builds everything with AddressSanitizer and UndefinedBehaviorSanitizer. Ends with ctest's summary.
set -eu
cd "$(dirname "$0")/.."

sanitize=
case "${1:-}" in
  --sanitize) sanitize=address,undefined; shift ;;
  --sanitize=*) sanitize="${1#--sanitize=}"; shift ;;
esac
mkdir -p build
folder="build/native-tests${sanitize:+-$(echo "$sanitize" | tr ',' '-')}"
generator=
command -v ninja >/dev/null && generator=-GNinja

cmake -S . -B "$folder" $generator -DCUDALLOC_TESTS=ON -DCUDALLOC_SANITIZE="$sanitize" >"$folder.log" 2>&1 || {
  cat "$folder.log" >&2
  exit 1
}
cmake --build "$folder" --parallel 2 >"$folder.log" 2>&1 || {
  cat "$folder.log" >&2
  exit 1
}
cd "$folder"
if [ "$sanitize" = thread ]; then
  # The sanitizer wants its addresses where randomised layouts may put others, and only threads are its matter.
  exec setarch -R ctest --output-on-failure -R '^threads$' "$@"
fi
exec ctest --output-on-failure "$@"
