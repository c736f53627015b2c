#!/usr/bin/env bash
# Builds every fuzz target (fuzz/NAME_fuzz.cc) and runs each for some seconds.
#   scripts/fuzz.sh SECONDS
# Starts from fuzz/corpus/NAME; keeps what it finds in build-fuzz/corpus/NAME. A
# crash leaves its input in build-fuzz and fails.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$1

targets=$(for source in fuzz/*_fuzz.cc; do [ -e "$source" ] && basename "$source" .cc; done)
[ -n "$targets" ] || exit 0
[ -e build-fuzz/build.ninja ] || cmake --preset fuzz
# shellcheck disable=SC2086
cmake --build --preset fuzz -j"${JOBS:-$(nproc)}" --target $targets
for target in $targets; do
  name=${target%_fuzz}
  corpus=build-fuzz/corpus/$name
  mkdir -p "$corpus" "fuzz/corpus/$name"
  echo "fuzzing $name for $seconds s"
  build-fuzz/"$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -verbosity=0 \
    -artifact_prefix="build-fuzz/$name-" "$corpus" "fuzz/corpus/$name" 2> "build-fuzz/$target.log" || {
    tail -40 "build-fuzz/$target.log"
    echo "the input is in build-fuzz/$name-*; try again with: build-fuzz/$target FILE" >&2
    exit 1
  }
done
