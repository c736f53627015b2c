"""How every record in bench/results is written: the numbers, and what they were drawn with.

    import record                          # before anything is measured: takes the load average
    record.write("overload", document)     # bench/results/overload.json

A record without a commit, that is from outside a checkout of the project, is refused. `drawn` in a
record says commit (and whether files were changed since), date, machine, cores, load before,
priority, command and versions; null is what was not written down at the time.
"""

import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
LOAD_BEFORE = [round(load, 2) for load in os.getloadavg()]
PACKAGES = ("numpy", "onnxruntime", "mlserver", "tritonclient", "nvidia-pytriton")


def git(*arguments):
    done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench: no record is written without its commit, and git says: {done.stderr.strip()}")
    return done.stdout.strip()


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(": ", 1)[1] for line in lines if line.startswith("model name")), "unknown")


def versions():
    found = {"python": platform.python_version(), "kernel": platform.release()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


def priority():
    """Beside other work: above it or not."""
    real_time = os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR)
    return "real time" if real_time else f"nice {os.nice(0)}"


def said(word):
    """A word of the command, without where on this machine files lie: below the checkout, or by its name alone."""
    option, equals, path = word.rpartition("=")
    if not os.path.isabs(path):
        return word
    path = pathlib.Path(path)
    return option + equals + (str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name)


def drawn(**more):
    """What goes into a record beside its numbers; `more` are versions that Python does not know."""
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results")
    return {"commit": git("rev-parse", "HEAD"), "changed_since": bool(changed),
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "machine": processor(), "cores": os.cpu_count(), "load_before": LOAD_BEFORE,
            "priority": priority(),
            "command": " ".join([os.path.relpath(sys.argv[0], ROOT), *map(said, sys.argv[1:])]),
            "versions": versions() | more}


def read(name):
    """The numbers of an earlier run and what drew them; empty where there was none."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def left(earlier):
    """What drew the numbers that stay of an earlier run whose others are measured again: that run, and those whose
    numbers it had left itself, the latest first. A run stays in the list when none of its numbers does."""
    return [run for run in [earlier.get("drawn"), *earlier.get("drawn_before", [])] if run]


def write(name, document, indent=2, before=None, **more):
    """`document` is a dict; `before` is what drew the numbers in it that an earlier run left."""
    about = {"drawn": drawn(**more)} | ({"drawn_before": before} if before else {})
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(about | document, indent=indent) + "\n")
