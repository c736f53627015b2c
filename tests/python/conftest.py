"""A really started server for the client tests, and Triton's two clients on it."""

import contextlib
import os
import pathlib
import re
import subprocess
import threading
import types

import pytest
import tritonclient.grpc
import tritonclient.http
from left_out import pytest_terminal_summary, pytest_unconfigure  # noqa: F401

ROOT = pathlib.Path(__file__).resolve().parents[2]
ZOO = ROOT / "zoo"
FERMATA = ROOT / "build" / "fermata"
START_LIMIT_S = 120

CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{count: 1, threads: 1}}
services:
  digits: {{model: digits-cnn-large, queue_limit: 1000}}
  narrow: {{model: digits-cnn-large, queue_limit: 2}}
"""


def isolated(text):
    """The configuration with the workers.isolation of FERMATA_ISOLATION, where it names none: runs any test that way."""
    isolation = os.environ.get("FERMATA_ISOLATION")
    if isolation is None or "isolation:" in text:
        return text
    for own, put in ((r"(?m)^workers: *\{", f"workers: {{isolation: {isolation}, "),
                     (r"(?m)^workers:\n", f"workers:\n  isolation: {isolation}\n")):
        if re.search(own, text):
            return re.sub(own, put, text)
    return text + f"\nworkers: {{isolation: {isolation}}}\n"


class Server:
    """`fermata serve` in a child process, ready when the constructor returns."""

    def __init__(self, folder, models, text=CONFIG, environment=None):
        config = folder / "fermata.yaml"
        config.write_text(isolated(text.format(models=models)))
        self.log = folder / "server.log"
        with self.log.open("w") as log:
            self.process = self.start([FERMATA, "serve", "--config", config],
                                      stdout=subprocess.PIPE, stderr=log, text=True,
                                      env={**os.environ, **(environment or {})})
        ports = self._ports()
        self.http, self.grpc, self.metrics = (
            f"127.0.0.1:{ports[name]}" for name in ("http", "grpc", "metrics"))

    start = staticmethod(subprocess.Popen)

    def _ports(self):
        """Those that the ready line names."""
        limit = threading.Timer(START_LIMIT_S, self.process.kill)
        limit.start()
        for line in self.process.stdout:
            ports = dict(re.findall(r"(http|grpc|metrics)=\S+:(\d+)", line))
            if len(ports) == 3:
                limit.cancel()
                return ports
        raise RuntimeError(f"the server did not start:\n{self.log.read_text()}")

    def stop(self):
        self.process.terminate()
        return self.process.wait(START_LIMIT_S)


def link_models(repository, models, packaged=False):
    """A repository of some of the zoo's; skips where those of packages have not been fetched."""
    if packaged and not (ZOO / "repository" / models[-1] / "1" / "model.onnx").exists():
        pytest.skip("npm's PP-OCR models are not there: zoo/fetch brings them")
    repository.mkdir()
    for model in models:
        (repository / model).symlink_to(ZOO / "repository" / model)
    return repository


def serve_part(folder, repository, services):
    """Serves these services of the zoo's configuration."""
    braces = services.replace("{", "{{").replace("}", "}}")
    return Server(folder, repository,
                  "models: {models}\nlisten: {{http: 0, grpc: 0, metrics: 0}}\nservices:\n" + braces)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    models = folder / "models"
    models.mkdir()
    for repository in (ZOO / "repository", ROOT / "tests" / "data" / "repository"):
        for model in repository.iterdir():
            if (model / "1" / "model.onnx").exists():
                (models / model.name).symlink_to(model)
    server = Server(folder, models)
    yield server
    assert server.stop() == 0, server.log.read_text()


@contextlib.contextmanager
def triton_of(server, protocol):
    """The module of Triton's client for one protocol, and a client of it."""
    module = {"http": tritonclient.http, "grpc": tritonclient.grpc}[protocol]
    with module.InferenceServerClient(getattr(server, protocol)) as client:
        yield types.SimpleNamespace(protocol=protocol, module=module, client=client)


@pytest.fixture(params=["http", "grpc"])
def triton(request, server):
    with triton_of(server, request.param) as one:
        yield one


@pytest.fixture
def http(server):
    with tritonclient.http.InferenceServerClient(server.http, concurrency=4) as client:
        yield client


@pytest.fixture
def grpc(server):
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        yield client
