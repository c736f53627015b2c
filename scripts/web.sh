#!/usr/bin/env bash
# Compiles the pages, web/*.ts, into web/built (or FOLDER), which the build puts into the program.
#   scripts/web.sh [FOLDER]
set -euo pipefail
source "$(dirname "$0")/common.sh"
npm_package typescript@5.9.3 lib/_tsc.js e8f349eabd48486bdb2bf9dc1a00c89d58297270c54b745838879e2859194419
node "$deps/npm/typescript@5.9.3/package/lib/tsc.js" -p "$root/web" --outDir "${1:-$root/web/built}"
