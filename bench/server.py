"""A Fermata server of a benchmark's own, on free ports, in a folder that goes with it."""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
BINARY = ROOT / "build" / "fermata"
START_LIMIT_S = 120


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]


def write_profile(model, ms, **about):
    """`ms` by batch size, at least two; `about`: what it says besides."""
    batches = {str(size): {"runs": 1, "p50_ms": took, "p90_ms": took, "p99_ms": took, "mean_ms": took}
               for size, took in ms.items()}
    least, most = (f(map(int, ms)) for f in (min, max))
    first, last = (batches[str(size)]["p50_ms"] for size in (least, most))
    alpha = max(0.0, (last - first) / (most - least))
    beta = max(0.0, first - alpha * least)
    (model / "profile.json").write_text(json.dumps(
        {"format": 1, "version": 1, "model": model.name, "model_version": "1", "batches": batches,
         "linear_ms": {"alpha": alpha, "beta": beta, "error": 0.0},
         "quadratic_ms": {"a": 0.0, "b": alpha, "c": beta, "error": 0.0}} | about))


def emulated_model(repository, name, alpha_ms, beta_ms, max_batch, **about):
    """Adds a model that takes alpha * items + beta by the clock, whatever the machine; `about`: what its profile says besides."""
    model = repository / name
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(
        f"max_batch_size: {max_batch}\n"
        'input { name: "x" data_type: TYPE_FP32 dims: 64 }\n'
        'output { name: "y" data_type: TYPE_FP32 dims: 10 }\n')
    write_profile(model, {items: alpha_ms * items + beta_ms for items in (1, max_batch)}, **about)


def cpu_seconds(pid):
    """Processor time so far of a process and of those that it started."""
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    own = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(map(cpu_seconds, children))


class Started(contextlib.AbstractContextManager):
    """A server process with a folder of its own, `self._folder`, and an HTTP port, `self.http`."""

    host = "127.0.0.1"

    def _start(self, command, log, environment=None):
        """Ready when this returns; raises with the server's log where it is not."""
        with log.open("w") as file:
            self._process = subprocess.Popen(command, stdout=file, stderr=file, env=environment)
        self.pid = self._process.pid
        end = time.monotonic() + START_LIMIT_S
        while time.monotonic() < end and self._process.poll() is None:
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(f"http://{self.host}:{self.http}/v2/health/ready"):
                    return
            time.sleep(0.1)
        text = log.read_text()
        self.__exit__()
        raise RuntimeError(f"the server did not become ready:\n{text}")

    def __exit__(self, *_):
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.host}:{self.http}{path}") as reply:
            return json.load(reply)


class Server(Started):
    """`config` is fermata.yaml as a dict, without `listen`, which is added here; `host` is where it
    listens."""

    def __init__(self, config, host="127.0.0.1"):
        self._folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self._folder.name)
        self.http, self.grpc, self.metrics_port = free_ports(3)
        self.host = host
        listen = {"host": host, "http": self.http, "grpc": self.grpc,
                  "metrics": self.metrics_port}
        if host != Started.host:
            listen["public"] = True
        (folder / "fermata.yaml").write_text(json.dumps({**config, "listen": listen}))
        self._start([BINARY, "serve", "--config", folder / "fermata.yaml"], folder / "log")

    def rss_mb(self):
        pages = int(pathlib.Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def metrics(self):
        """Each sample of the metrics page by its text up to the value."""
        with urllib.request.urlopen(f"http://{self.host}:{self.metrics_port}/metrics") as reply:
            lines = reply.read().decode().splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
                for line in lines if line and not line.startswith("#")}
