#!/usr/bin/env bash
# Installs what is missing for the named purposes (default: build): Debian
# packages, ONNX Runtime where the system has none, Python packages. Quick and
# offline when everything is there.
#   scripts/deps.sh [build|test|zoo|train|predictors|bench|lint]...
set -euo pipefail
source "$(dirname "$0")/common.sh"

debian() {
  # shellcheck disable=SC2046
  need_debian $(sed -n "s/^$1: //p" "$root/scripts/debian-packages.txt")
}

onnxruntime_library() {
  local work
  work=$(mktemp -d)
  say "fetching ONNX Runtime's library from PyPI (24 MB)"
  make_venv "$work/venv"
  "$work/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps \
    --only-binary :all: --dest "$work" onnxruntime==1.31.1 >&2 ||
    fail "pip could not download ONNX Runtime" \
      "check the network and pip's index settings, or install libonnxruntime-dev"
  mkdir -p "$deps/onnxruntime/lib"
  python3 -c "import sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
name, = [n for n in wheel.namelist() if n.startswith('onnxruntime/capi/libonnxruntime.so.1')]
sys.stdout.buffer.write(wheel.read(name))" "$work"/onnxruntime-*.whl > "$work/library"
  mv "$work/library" "$deps/onnxruntime/lib/libonnxruntime.so.1"
  rm -rf "$work"
}

onnxruntime_headers() {
  command -v go >/dev/null || need_debian golang-go
  say "fetching ONNX Runtime's C headers with go mod download"
  local module
  module=$(cd "$root/scripts/headers" && go mod download -json | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p') ||
    fail "go could not download ONNX Runtime's headers" \
      "check the network and Go's proxy settings (go env GOPROXY), or install libonnxruntime-dev"
  mkdir -p "$deps/onnxruntime/include"
  install -m 644 "$module"/onnxruntime_c_api.h "$module"/onnxruntime_ep_c_api.h "$deps/onnxruntime/include/"
}

# Where CMake would find it (cmake/Dependencies.cmake).
system_onnxruntime() {
  ldconfig -p | grep -q 'libonnxruntime\.so' || return
  for folder in /usr/{,local/}include/{,onnxruntime/}; do
    [ -e "$folder/onnxruntime_c_api.h" ] && return
  done
  return 1
}

onnxruntime() {
  local ours=$deps/onnxruntime
  [ -e "$ours/lib/libonnxruntime.so.1" ] && [ -e "$ours/include/onnxruntime_ep_c_api.h" ] && return
  system_onnxruntime && return
  [ -e "$ours/lib/libonnxruntime.so.1" ] || onnxruntime_library
  [ -e "$ours/include/onnxruntime_ep_c_api.h" ] || onnxruntime_headers
}

for purpose in "${@:-build}"; do
  case $purpose in
    build) debian build; onnxruntime ;;
    test) debian test; need_venv test "$root/tests/python/requirements.txt" ;;
    zoo) command -v npm >/dev/null || need_debian npm ;;
    train) need_venv train "$root/zoo/requirements.txt" ;;
    predictors) debian predictors ;;
    bench)
      debian bench
      need_venv bench "$root/bench/requirements.txt"
      need_venv mlserver "$root/bench/mlserver/requirements.txt"
      ;;
    lint) debian lint ;;
    *) fail "unknown purpose '$purpose'" "name some of: build test zoo train predictors bench lint" ;;
  esac
done
