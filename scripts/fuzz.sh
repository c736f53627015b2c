#!/usr/bin/env bash
# Builds every fuzz target (fuzz/NAME_fuzz.cc), or those named, and runs one on each processor.
#   scripts/fuzz.sh SECONDS [NAME ...]   for that long, from another seed each time
#   scripts/fuzz.sh check [NAME ...]     on fuzz/corpus/NAME and 4,000 inputs made of it, the same each time
# Starts from fuzz/corpus/NAME; given SECONDS, keeps what it finds in build-fuzz/corpus/NAME.
# A crash leaves its input in build-fuzz and fails.
set -euo pipefail
cd "$(dirname "$0")/.."

length=$1
shift
names=${*:-$(for source in fuzz/*_fuzz.cc; do basename "$source" _fuzz.cc; done)}
[ -e build-fuzz/build.ninja ] || cmake --preset fuzz
# shellcheck disable=SC2086
cmake --build --preset fuzz -j"${JOBS:-$(nproc)}" --target $(printf '%s_fuzz ' $names)

fuzz() { # LENGTH NAME
  if [ "$1" = check ]; then
    local limit=(-seed=1 -runs=4000) found=build-fuzz/check/$2
    rm -rf "$found"
  else
    local limit=(-max_total_time="$1") found=build-fuzz/corpus/$2
  fi
  mkdir -p "$found" "fuzz/corpus/$2"
  build-fuzz/"$2_fuzz" "${limit[@]}" -timeout=10 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 \
    -artifact_prefix="build-fuzz/$2-" "$found" "fuzz/corpus/$2" 2> "build-fuzz/$2_fuzz.log" || {
    tail -40 "build-fuzz/$2_fuzz.log"
    echo "the input is in build-fuzz/$2-*; try again with: build-fuzz/$2_fuzz FILE" >&2
    return 1
  }
  echo "fuzzed $2: $(sed -n 's/stat::number_of_executed_units: *//p' "build-fuzz/$2_fuzz.log") inputs, no finding"
}
export -f fuzz
# shellcheck disable=SC2086
printf '%s\n' $names | xargs -P "${JOBS:-$(nproc)}" -I{} bash -c 'fuzz "$@"' fuzz "$length" {}
