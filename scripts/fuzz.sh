#!/usr/bin/env bash
# Builds every fuzz target (fuzz/NAME_fuzz.cc) and runs each.
#   scripts/fuzz.sh SECONDS   for that long, from another seed each time
#   scripts/fuzz.sh check     on fuzz/corpus/NAME and 4,000 inputs made of it, the same each time
# Starts from fuzz/corpus/NAME; given SECONDS, keeps what it finds in build-fuzz/corpus/NAME.
# A crash leaves its input in build-fuzz and fails.
set -euo pipefail
cd "$(dirname "$0")/.."

targets=$(for source in fuzz/*_fuzz.cc; do [ -e "$source" ] && basename "$source" .cc; done)
[ -n "$targets" ] || exit 0
[ -e build-fuzz/build.ninja ] || cmake --preset fuzz
# shellcheck disable=SC2086
cmake --build --preset fuzz -j"${JOBS:-$(nproc)}" --target $targets
for target in $targets; do
  name=${target%_fuzz}
  if [ "$1" = check ]; then
    length=(-seed=1 -runs=4000)
    found=build-fuzz/check/$name
    rm -rf "$found"
    echo "fuzzing $name with 4,000 inputs"
  else
    length=(-max_total_time="$1")
    found=build-fuzz/corpus/$name
    echo "fuzzing $name for $1 s"
  fi
  mkdir -p "$found" "fuzz/corpus/$name"
  build-fuzz/"$target" "${length[@]}" -timeout=10 -rss_limit_mb=2048 -verbosity=0 \
    -artifact_prefix="build-fuzz/$name-" "$found" "fuzz/corpus/$name" 2> "build-fuzz/$target.log" || {
    tail -40 "build-fuzz/$target.log"
    echo "the input is in build-fuzz/$name-*; try again with: build-fuzz/$target FILE" >&2
    exit 1
  }
done
