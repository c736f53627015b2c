# What the server sends to a Python's standard input, behind the line FILES = {...}: the modules beside this
# file, by name. No file of Fermata has to be where this runs.
import importlib.abc
import importlib.util
import json
import os
import socket
import sys


class Carried(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules from FILES."""

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if f"{name}.py" in FILES else None  # noqa: F821

    def exec_module(self, module):
        name = f"{module.__name__}.py"
        exec(compile(FILES[name], f"<fermata {name}>", "exec"), module.__dict__)  # noqa: F821


def refuse(why):
    """Says it as the answer to whatever is asked."""
    stream = socket.socket(fileno=4).makefile("rw", encoding="utf-8")
    print(json.dumps({"ok": True}), file=stream, flush=True)
    for _ in stream:
        print(json.dumps({"ok": False, "code": 3, "error": why}), file=stream, flush=True)
    os._exit(1)


if sys.version_info < (3, 8):
    refuse(f"{sys.executable} is Python {sys.version.split()[0]}, expected 3.8 or later (workers.python)")
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", sys.argv[2])  # workers.threads
try:
    import numpy  # noqa: F401
except ImportError as missing:
    refuse(f"{sys.executable} cannot import numpy ({missing}): install it there ({sys.executable} -m pip install "
           "numpy), or name another Python in workers.python or the model's EXECUTION_ENV_PATH")
sys.meta_path.insert(0, Carried())
import worker  # noqa: E402

worker.main(sys.argv[1])
