"""A real Triton on the models of a Fermata repository, with bench/triton/backend.cc as its backend.

    with triton_server.Triton(repository, {"m": {"queue": 8}}) as triton:    # triton.http, triton.grpc

The server is that of PyPI's nvidia-pytriton (scripts/deps.sh bench), the backend is
build/bench_triton_backend.so.
"""

import contextlib
import json
import os
import pathlib
import tempfile

from server import ROOT, Started, free_ports

BACKEND = ROOT / "build" / "bench_triton_backend.so"
PACKAGES = next((ROOT / ".deps/triton/lib").glob("python3*/site-packages"), None)
ONE_WORKER = "rate_limiter { resources { name: \"worker\" global: true count: 1 } }"


def version():
    return next(PACKAGES.glob("nvidia_pytriton-*.dist-info")).name.split("-")[1].removesuffix(".dist")


def tensors(kind, given):
    return "".join(f'{kind} {{ name: "{t["name"]}" data_type: TYPE_{t["datatype"]} '
                   f'dims: [{", ".join(map(str, t["shape"][1:]))}] }}\n' for t in given)


def queue_policy(queue=None, timeout_ms=None, override=False):
    """None of the bounds of a dynamic batcher's queue, one or both."""
    said = ""
    if queue is not None:
        said += f"max_queue_size: {queue} "
    if timeout_ms is not None:
        said += f"timeout_action: REJECT default_timeout_microseconds: {round(timeout_ms * 1000)} "
    if override:
        said += "allow_timeout_override: true "
    return f"default_queue_policy {{ {said}}}" if said else ""


def add_model(folder, name, source, metadata, max_batch, policy):
    """`metadata` as the protocol gives it; `source` is the version's folder in Fermata's repository."""
    version = folder / name / "1"
    version.mkdir(parents=True)
    profile = source.parent / "profile.json"
    if profile.exists():
        line = json.loads(profile.read_text())["linear_ms"]
        (version / "emulated.txt").write_text(f'{line["alpha"]} {line["beta"]}\n')
    else:
        (version / "model.onnx").symlink_to(source / "model.onnx")
    (folder / name / "config.pbtxt").write_text(
        f'backend: "fermata"\nmax_batch_size: {max_batch}\n'
        + tensors("input", metadata["inputs"]) + tensors("output", metadata["outputs"])
        + f"instance_group {{ kind: KIND_CPU count: 1 {ONE_WORKER} }}\n"
        + f"dynamic_batching {{ {queue_policy(**policy)} }}\n")


class Triton(Started):
    """`models`: NAME to (version's folder, metadata, largest batch, queue policy); `ensembles`: NAME to
    the configuration of one of Triton's own."""

    def __init__(self, models, ensembles=None):
        if PACKAGES is None or not BACKEND.exists():
            raise RuntimeError("no Triton: run scripts/deps.sh bench, and build bench_triton_backend")
        with contextlib.ExitStack() as started:
            self._folder = tempfile.TemporaryDirectory()
            started.enter_context(self._folder)
            folder = pathlib.Path(self._folder.name)
            (folder / "backends/fermata").mkdir(parents=True)
            (folder / "backends/fermata/libtriton_fermata.so").symlink_to(BACKEND)
            for name, (source, metadata, max_batch, policy) in models.items():
                add_model(folder / "models", name, source, metadata, max_batch, policy)
            for name, text in (ensembles or {}).items():
                (folder / "models" / name / "1").mkdir(parents=True)
                (folder / "models" / name / "config.pbtxt").write_text(text)
            self.http, self.grpc = free_ports(2)
            self._start(
                [PACKAGES / "pytriton/tritonserver/bin/tritonserver", f"--model-repository={folder}/models",
                 f"--backend-directory={folder}/backends", "--http-address=127.0.0.1", "--grpc-address=127.0.0.1",
                 f"--http-port={self.http}", f"--grpc-port={self.grpc}", "--allow-metrics=false",
                 "--rate-limit=execution_count", "--model-control-mode=explicit", "--load-model=*"],
                folder / "log", {**os.environ, "LD_LIBRARY_PATH": str(PACKAGES / "nvidia_pytriton.libs")})
            started.pop_all()


