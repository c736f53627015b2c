"""The Python client as others install it: `pip install ./python`, without a network."""

import os
import shutil
import subprocess
import sys

from conftest import ROOT

SEEN = """
import importlib.metadata, pathlib, fermata, fermata.aio
print(pathlib.Path(fermata.__file__).parent, importlib.metadata.version("fermata"))
session = fermata.Session("cameras", slo=0.1, rate=15, input="frame", encode=fermata.Pixels())
print(session.rate, fermata.back_off([1000, 2000], 15, 1.0))
"""


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_pip_installs_is_whole(tmp_path):
    source = shutil.copytree(ROOT / "python", tmp_path / "python")  # pip builds inside of it
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-index", "--no-build-isolation", "--no-deps", "--wheel-dir", tmp_path, source)
    wheel, = tmp_path.glob("fermata-*.whl")
    site = tmp_path / "site"
    run(*pip, "install", "--no-index", "--no-deps", "--target", site, wheel)
    assert {path.name for path in (site / "fermata").glob("*.py")} == \
        {path.name for path in (ROOT / "python" / "fermata").glob("*.py")}
    at, options = run(sys.executable, "-c", SEEN, cwd=tmp_path,
                      env=os.environ | {"PYTHONPATH": str(site)}).splitlines()
    assert at == f"{site / 'fermata'} 0.1.0"
    assert options.startswith("15")
