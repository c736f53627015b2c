#!/usr/bin/env python3
"""Fermata beside MLServer: the same model, client, requests and cores, over REST and gRPC.

    scripts/deps.sh bench && .deps/bench/bin/python bench/mlserver.py

MLServer serves digits-mlp in three ways: the ONNX file through a runtime of a few
lines (bench/mlserver/digits_onnx.py), in its own process and in a worker process, and
a scikit-learn MLPClassifier of the same shape through MLServer's own runtime. The model
has one thread everywhere, and nobody writes access logs. h2load sends one digit a request
in a closed loop of so many clients. Runs of all servers alternate; each figure is the
median of the rounds. Ratios are to the best of MLServer's. Then the same digits come in an open loop over
gRPC, whatever earlier answers do (`fermata load`), at rates of OFFERED: on time is within SLO_MS, which no server is told.
Writes bench/results/mlserver.json and .png.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import numpy as np
import tritonclient.grpc

import drawings
import plot
from server import BINARY, ROOT, START_LIMIT_S, Server, cpu_seconds, free_ports

MODEL = ROOT / "zoo" / "repository" / "digits-mlp" / "1" / "model.onnx"
MLSERVER = ROOT / ".deps" / "mlserver" / "bin"
WARM_UP_S = 1
MEASURES = ("rps", "p50_ms", "cpu_us")  # of one run
RUNTIMES = ROOT / "bench" / "mlserver"
OFFERED, SLO_MS = (100, 250, 500, 1000, 2000), 50


def fermata(folder):
    (folder / "digits").symlink_to(MODEL.parents[1])
    return Server({"models": str(folder), "log_level": "warning"})


class MlServer(contextlib.AbstractContextManager):
    """MLServer with one model, in `folder`; ready when the constructor returns."""

    def __init__(self, folder, model, workers=0):
        self.http, self.grpc, metrics = free_ports(3)
        settings = {"host": "127.0.0.1", "http_port": self.http, "grpc_port": self.grpc,
                    "metrics_port": metrics, "parallel_workers": workers, "debug": False}
        (folder / "settings.json").write_text(json.dumps(settings))
        (folder / "model-settings.json").write_text(json.dumps({"name": "digits", **model}))
        environment = {**os.environ, "PYTHONPATH": str(RUNTIMES), "OMP_NUM_THREADS": "1"}
        self._log = folder / "log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen([MLSERVER / "mlserver", "start", folder],
                                             env=environment, stdout=log, stderr=log)
        self.pid = self._process.pid
        self._wait_until_ready()

    def _wait_until_ready(self):
        end = time.monotonic() + START_LIMIT_S
        while time.monotonic() < end and self._process.poll() is None:
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/v2/models/digits/ready"):
                    return
            time.sleep(0.2)
        self.__exit__()
        raise RuntimeError(f"MLServer did not become ready:\n{self._log.read_text()}")

    def __exit__(self, *_):
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()


def mlserver_onnx(folder, workers):
    return MlServer(folder, {"implementation": "digits_onnx.DigitsOnnx",
                             "parameters": {"uri": str(MODEL)}}, workers)


def mlserver_sklearn(folder):
    file = folder / "model.joblib"
    subprocess.run([MLSERVER / "python", RUNTIMES / "digits_sklearn.py", file], check=True)
    return MlServer(folder, {"implementation": "mlserver_sklearn.SKLearnModel",
                             "parameters": {"uri": str(file)}})


SERVERS = {
    "fermata": fermata,
    "mlserver, onnx": lambda folder: mlserver_onnx(folder, 0),
    "mlserver, onnx, a worker process": lambda folder: mlserver_onnx(folder, 1),
    "mlserver, scikit-learn": mlserver_sklearn,
}


def bodies(folder):
    """One digit as JSON and as a gRPC message, the same for every server."""
    with (ROOT / "zoo" / "data" / "digits-test.jsonl").open() as file:
        request = json.loads(file.readline())
    rest, grpc = folder / "rest", folder / "grpc"
    rest.write_text(json.dumps({"inputs": request["inputs"]}))
    image = np.array([request["inputs"][0]["data"]], np.float32)
    message = tritonclient.grpc.service_pb2.ModelInferRequest(model_name="digits")
    message.inputs.add(name="image", datatype="FP32", shape=image.shape)
    message.inputs[0].contents.fp32_contents.extend(image[0].tolist())
    content = message.SerializeToString()
    grpc.write_bytes(b"\0" + len(content).to_bytes(4, "big") + content)
    return {"rest": rest, "grpc": grpc}


def check(server):
    """gRPC's status is in a trailer that h2load does not read: one real answer first."""
    image = tritonclient.grpc.InferInput("image", [1, 64], "FP32")
    image.set_data_from_numpy(np.zeros((1, 64), np.float32))
    with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{server.grpc}") as client:
        assert client.infer("digits", [image]).get_response().outputs


def load(server, protocol, body, options):
    """Requests a second, p50 in ms, processor time a request in the server in µs."""
    if protocol == "rest":
        extra = ["--h1", "-H", "content-type: application/json",
                 f"http://127.0.0.1:{server.http}/v2/models/digits/infer"]
    else:
        extra = ["-H", "content-type: application/grpc", "-H", "te: trailers",
                 f"http://127.0.0.1:{server.grpc}/inference.GRPCInferenceService/ModelInfer"]
    before = cpu_seconds(server.pid)
    with tempfile.NamedTemporaryFile() as log:
        text = subprocess.run(
            ["h2load", "-t", "1", "-c", str(options.clients), "-D", str(options.seconds),
             "--warm-up-time", str(WARM_UP_S), "-d", body, "--log-file", log.name, *extra],
            check=True, capture_output=True, text=True).stdout
        rows = np.loadtxt(log.name, dtype=np.int64, usecols=(1, 2))
    good = re.search(r"(\d+) 2xx, 0 3xx, 0 4xx, 0 5xx", text)
    if not good or int(good[1]) == 0 or (rows[:, 0] != 200).any():
        sys.exit(f"requests failed:\n{text}")
    used = (cpu_seconds(server.pid) - before) * options.seconds / (options.seconds + WARM_UP_S)
    return (int(good[1]) / options.seconds, float(np.median(rows[:, 1])) / 1000,
            used / int(good[1]) * 1e6)


def open_loop(server, rate, options):
    done = subprocess.run(
        [BINARY, "load", "--json", "--url", f"127.0.0.1:{server.grpc}", "--warmup", str(WARM_UP_S), "--drain", "5",
         "--duration", str(options.seconds), "--slo-ms", str(SLO_MS), "--service",
         f"digits:{rate}:{ROOT / 'zoo/data/digits-test.jsonl'}"], check=True, capture_output=True, text=True, timeout=120)
    said = json.loads(done.stdout)
    return {"offered_rps": rate, "on_time": said["on_time"] / said["offered"]} | {
        key: said[key] for key in ("p50_ms", "p99_ms", "lag_p99_ms", "accuracy")}


def summarised(runs):
    median = {name: {protocol: {key: round(statistics.median(run[i] for run in measured), 3)
                                for i, key in enumerate(MEASURES)}
                     for protocol, measured in by_protocol.items()}
              for name, by_protocol in runs.items()}
    peers = [median[name] for name in SERVERS if name != "fermata"]
    ratios = {}
    for protocol, ours in median["fermata"].items():
        best = {"rps": max(peer[protocol]["rps"] for peer in peers),
                **{key: min(peer[protocol][key] for peer in peers) for key in MEASURES[1:]}}
        ratios[protocol] = {key: round(ours[key] / best[key], 3) for key in MEASURES}
    return median, ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    load_average = os.getloadavg()[0]  # what else the machine did
    runs = {name: {"rest": [], "grpc": []} for name in SERVERS}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        folder = pathlib.Path(folder)
        body = bodies(folder)
        servers = {}
        for number, (name, start) in enumerate(SERVERS.items()):
            place = folder / str(number)
            place.mkdir()
            servers[name] = stack.enter_context(start(place))
            check(servers[name])
        for number in range(options.rounds):
            for protocol in ("rest", "grpc"):
                for name, server in servers.items():
                    run = load(server, protocol, body[protocol], options)
                    runs[name][protocol].append(run)
                    print("round {}  {}  {:32} {:7.0f} requests/s  p50 {:7.3f} ms  {:6.0f} µs of "
                          "processor each".format(number + 1, protocol, name, *run),
                          file=sys.stderr)
        opened = {name: [open_loop(server, rate, options) for rate in OFFERED] for name, server in servers.items()}
    median, ratios = summarised(runs)
    print(plot.table(["offered/s", "server", "on time", "p50 ms", "p99 ms"],
                     [[row["offered_rps"], name, row["on_time"], row["p50_ms"] or 0, row["p99_ms"] or 0]
                      for name, rows in opened.items() for row in rows]))
    document = {"clients": options.clients, "seconds": options.seconds, "rounds": options.rounds,
                "cores": os.cpu_count(), "load_average_before": load_average,
                "median": median, "fermata_over_best_mlserver": ratios, "slo_ms": SLO_MS, "open_loop": opened}
    plot.save("mlserver", drawings.DRAWN["mlserver"](document), document)
    print(json.dumps(ratios))


if __name__ == "__main__":
    main()
