#!/usr/bin/env bash
# Triton's perf_analyzer on a running server; arguments are its own:
#   scripts/perf_analyzer.sh -m digits -u localhost:8001 -i grpc
# PyPI's perf-analyzer is an empty placeholder. tritonclient's wheels carried the program
# until 2.54; 2.50 is one that runs on Debian 12, with CUDA's runtime library beside it.
set -euo pipefail
source "$(dirname "$0")/common.sh"
need_debian libb64-0d
need_venv perf-analyzer "$root/scripts/perf_analyzer.txt"
library=$(find "$deps/perf-analyzer" -name libcudart.so.12 -printf '%h' -quit)
LD_LIBRARY_PATH=$library exec "$deps/perf-analyzer/bin/perf_analyzer" "$@"
