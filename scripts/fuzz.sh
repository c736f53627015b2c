#!/usr/bin/env bash
# Builds every fuzz target (fuzz/NAME_fuzz.cc), or those named, and runs one on each processor.
#   scripts/fuzz.sh SECONDS [NAME ...]   in build-fuzz: under sanitizers, by coverage, for that long, from another seed
#                                        each time, keeping what it finds in build-fuzz/corpus/NAME
#   scripts/fuzz.sh check [NAME ...]     in build, the ordinary one: 4,000 inputs made of the seeds, the same each time
# Starts from fuzz/corpus/NAME. A crash leaves its input in the build's folder and fails.
set -euo pipefail
cd "$(dirname "$0")/.."

length=$1
shift
names=${*:-$(for source in fuzz/*_fuzz.cc; do basename "$source" _fuzz.cc; done)}
if [ "$length" = check ]; then
  preset=release build=build
  [ -e build/build.ninja ] || cmake --preset bare
  cmake build > build/configure.log # libFuzzer may have been installed since
else
  preset=fuzz build=build-fuzz
  [ -e build-fuzz/build.ninja ] || cmake --preset fuzz
fi
# shellcheck disable=SC2086
cmake --build --preset "$preset" -j"${JOBS:-$(nproc)}" --target $(printf '%s_fuzz ' $names)

fuzz() { # LENGTH NAME BUILD
  local build=$3
  if [ "$1" = check ]; then
    local limit=(-seed=1 -runs=4000 -keep_seed=1) found=$build/check/$2
    rm -rf "$found"
  else
    local limit=(-max_total_time="$1") found=$build/corpus/$2
  fi
  mkdir -p "$found" "fuzz/corpus/$2"
  "$build/$2_fuzz" "${limit[@]}" -timeout=10 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 \
    -artifact_prefix="$build/$2-" "$found" "fuzz/corpus/$2" 2> "$build/$2_fuzz.log" || {
    tail -40 "$build/$2_fuzz.log"
    echo "the input is in $build/$2-*; try again with: $build/$2_fuzz FILE" >&2
    return 1
  }
  echo "fuzzed $2: $(sed -n 's/stat::number_of_executed_units: *//p' "$build/$2_fuzz.log") inputs, no finding"
}
export -f fuzz
# shellcheck disable=SC2086
printf '%s\n' $names | xargs -P "${JOBS:-$(nproc)}" -I{} bash -c 'fuzz "$@"' fuzz "$length" {} "$build"
