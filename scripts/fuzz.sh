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
  ! grep 'No fuzz targets' build/configure.log >&2 || exit 1
else
  preset=fuzz build=build-fuzz
  [ -e build-fuzz/build.ninja ] || cmake --preset fuzz
fi
# shellcheck disable=SC2086
cmake --build --preset "$preset" -j"${JOBS:-$(nproc)}" --target $(printf '%s_fuzz ' $names)

try() { # BUILD NAME ARGUMENT...
  local build=$1 name=$2
  shift 2
  "$build/${name}_fuzz" "$@" -timeout=10 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 \
    -artifact_prefix="$build/$name-" 2>> "$build/${name}_fuzz.log" && return
  tail -40 "$build/${name}_fuzz.log"
  echo "the input is in $build/$name-*; try again with: $build/${name}_fuzz FILE" >&2
  return 1
}
fuzz() { # LENGTH NAME BUILD
  local build=$3
  : > "$build/$2_fuzz.log"
  if [ "$1" = check ]; then
    # Without coverage libFuzzer would change the smallest seed only.
    local seeds=("fuzz/corpus/$2"/*) seed
    for seed in "${seeds[@]}"; do
      try "$build" "$2" -seed=1 -runs=$((4000 / ${#seeds[@]})) -keep_seed=1 -seed_inputs="$seed" || return 1
    done
  else
    mkdir -p "$build/corpus/$2"
    try "$build" "$2" -max_total_time="$1" "$build/corpus/$2" "fuzz/corpus/$2" || return 1
  fi
  echo "fuzzed $2: $(awk '/^stat::number_of_executed_units/ { all += $2 } END { print all }' "$build/$2_fuzz.log") inputs, no finding"
}
export -f fuzz try
# shellcheck disable=SC2086
printf '%s\n' $names | xargs -P "${JOBS:-$(nproc)}" -I{} bash -c 'fuzz "$@"' fuzz "$length" {} "$build"
