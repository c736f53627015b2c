#!/usr/bin/env bash
# Compiles the pages, web/*.ts, into web/built (or FOLDER), which the build puts into the program, and
# puts the chart library beside them as a module.
#   scripts/web.sh [FOLDER]
set -euo pipefail
source "$(dirname "$0")/common.sh"
to=${1:-$root/web/built}
charts=$deps/npm/uplot@1.6.32/package/dist
npm_package typescript@5.9.3 lib/_tsc.js e8f349eabd48486bdb2bf9dc1a00c89d58297270c54b745838879e2859194419
npm_package uplot@1.6.32 dist/uPlot.iife.min.js 19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f
npm_package uplot@1.6.32 dist/uPlot.d.ts af44374f6e808be4f7f3fa5888b9c7574dca9f8a15a66d54b6763535802c8080
npm_package uplot@1.6.32 dist/uPlot.min.css df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04
node "$deps/npm/typescript@5.9.3/package/lib/tsc.js" -p "$root/web" --outDir "$to"
{ cat "$charts/uPlot.iife.min.js"; echo 'export default uPlot;'; } > "$to/uplot.js"
cp "$charts/uPlot.min.css" "$to/uplot.css"
