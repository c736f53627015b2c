"""Schedulers, frontends and workers as processes on this host, one configuration for all."""

import json
import os
import re
import subprocess
import threading
import time
import urllib.request

import tritonclient.grpc
import tritonclient.http
from conftest import FERMATA, ROOT, START_LIMIT_S, isolated

LIMIT_S = 120
QUIET_MS = 10_000  # of a busy machine nobody is taken for gone
CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
cluster:
  listen: 127.0.0.1:0
  frontends: 127.0.0.1:0
  silence_ms: {silence_ms}
{more}
workers:
  executor: paced
  types: [{{name: far, count: 4, remote: true}}]
"""


def paced(run_ms):
    """A profile of runs that take so long, whatever their size."""
    batch = {"runs": 9, "p50_ms": run_ms, "p90_ms": run_ms, "p99_ms": run_ms, "mean_ms": run_ms}
    return {"format": 1, "version": 1, "model": "gather", "model_version": "1", "provider": "cpu", "threads": 1,
            "linear_ms": {"alpha": 0, "beta": run_ms, "error": 0},
            "quadratic_ms": {"a": 0, "b": 0, "c": run_ms, "error": 0}, "batches": {"1": batch, "4": batch}}


class Part:
    """A process that says when it is ready, and where it listens."""

    def __init__(self, folder, name, arguments):
        self.name, self.log = name, folder / f"{name}.log"
        with self.log.open("a") as log:
            self.process = subprocess.Popen([FERMATA, *map(str, arguments)], stdout=subprocess.PIPE, stderr=log, text=True)
        self.said = {}

    def ready(self, word="ready"):
        """What its line says, by name."""
        limit = threading.Timer(START_LIMIT_S, self.process.kill)
        limit.start()
        for line in self.process.stdout:
            if line.startswith(word):
                limit.cancel()
                self.said = dict(re.findall(r"(\w+)=(\S+)", line))
                return self
        raise RuntimeError(f"{self.name} did not start:\n{self.log.read_text()}")

    @property
    def http(self):
        return self.said["http"]

    @property
    def grpc(self):
        return self.said["grpc"]

    def rows(self, name, **labels):
        """The values of those with these labels."""
        with urllib.request.urlopen(f"http://{self.said['metrics']}/metrics", timeout=LIMIT_S) as reply:
            text = reply.read().decode()
        wanted = {f'{key}="{value}"' for key, value in labels.items()}
        rows = re.findall(rf"(?m)^{name}(?:\{{(.*)\}})? (\S+)$", text)
        return [float(value) for own, value in rows if wanted <= set(own.split(","))]

    def metric(self, name, **labels):
        return sum(self.rows(name, **labels))

    def await_row(self, name, **labels):
        """Its value, once there is one."""
        end = time.monotonic() + LIMIT_S
        while not (rows := self.rows(name, **labels)):
            assert time.monotonic() < end, (name, labels, self.log.read_text())
        return sum(rows)

    def await_metric(self, expected, name, **labels):
        end = time.monotonic() + LIMIT_S
        while self.metric(name, **labels) != expected:
            assert time.monotonic() < end, (name, labels, self.metric(name, **labels), self.log.read_text())

    def client(self, protocol="http", **more):
        if protocol == "grpc":
            return tritonclient.grpc.InferenceServerClient(self.grpc, **more)
        return tritonclient.http.InferenceServerClient(self.http, network_timeout=LIMIT_S, **more)

    def await_ready(self):
        end = time.monotonic() + LIMIT_S
        with self.client() as client:
            while not client.is_server_ready():
                assert time.monotonic() < end, self.log.read_text()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        return self.process.wait(START_LIMIT_S)


class Parts:
    """What one test has started, in one folder."""

    def __init__(self, folder, run_ms=20, silence_ms=QUIET_MS, more=""):
        self.folder, self.parts = folder, []
        models = folder / "models"
        (models / "gather").mkdir(parents=True)
        (models / "gather" / "1").symlink_to(ROOT / "tests" / "data" / "repository" / "gather" / "1")
        (models / "gather" / "profile.json").write_text(json.dumps(paced(run_ms)))
        self.config = folder / "fermata.yaml"
        self.config.write_text(isolated(CONFIG.format(models=models, silence_ms=silence_ms, more=more)))

    def start(self, name, *arguments):
        part = Part(self.folder, name, arguments)
        self.parts.append(part)
        return part

    def scheduler(self, name="scheduler", *more):
        return self.start(name, "scheduler", "--config", self.config, *more).ready()

    def frontend(self, *schedulers, name="frontend", divisions=()):
        """`divisions`: schedulers of one more each."""
        more = [word for other in divisions for word in ("--scheduler", other.said["cluster"])]
        return self.start(name, "frontend", "--config", self.config, "--name", name,
                          "--scheduler", ",".join(s.said["cluster"] for s in schedulers), *more).ready()

    def worker(self, *schedulers, name="worker", workers=2):
        return self.start(name, "worker", "--config", self.config, "--name", name, "--workers", workers,
                          "--scheduler", ",".join(s.said["cluster"] for s in schedulers))

    def kill(self):
        for part in self.parts:
            part.kill()
