"""`workers.count: auto`, from the configuration through the signal to the pool: workers come in overload and
go when it is over. The model is emulated, so that nothing depends on how fast the machine is."""

import json
import re
import time
import urllib.request

import numpy as np
import tritonclient.http

from conftest import Server
from tensors import tensor

CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{count: auto, min: 1, max: 4, executor: emulated}}
services:
  model: {{slo_ms: 150}}
  patient: {{model: model, slo_ms: 600000}}
"""
RUN_MS = 100  # one request at a time: a worker answers ten a second
LIMIT_S = 120


def write_model(folder):
    at = folder / "model"
    (at / "1").mkdir(parents=True)
    (at / "config.pbtxt").write_text("""
max_batch_size: 1
input { name: "x" data_type: TYPE_FP32 dims: 2 }
output { name: "y" data_type: TYPE_FP32 dims: 2 }
""")
    times = {key: RUN_MS for key in ("p50_ms", "p90_ms", "p99_ms", "mean_ms")} | {"runs": 1}
    (at / "profile.json").write_text(json.dumps(
        {"format": 1, "version": 1, "model": "model", "model_version": "1", "batches": {"1": times},
         "linear_ms": {"alpha": 0, "beta": RUN_MS, "error": 0},
         "quadratic_ms": {"a": 0, "b": 0, "c": RUN_MS, "error": 0}}))
    return folder


def serving(server):
    with urllib.request.urlopen(f"http://{server.metrics}/metrics") as reply:
        rows = re.findall(r"^fermata_worker_serving\{.*\} (\d)$", reply.read().decode(), re.M)
    assert len(rows) == 4
    return rows.count("1")


def test_workers_come_in_overload_and_go_after_it(tmp_path):
    server = Server(tmp_path, write_model(tmp_path / "models"), CONFIG)
    assert serving(server) == 1
    x = [tensor(tritonclient.http, "x", np.ones((1, 2), np.float32))]
    with tritonclient.http.InferenceServerClient(server.http, concurrency=8) as client:
        def ask(service, together):
            """So many requests at once; they take turns of RUN_MS, or are rejected."""
            answered = 0
            for pending in [client.async_infer(service, x) for _ in range(together)]:
                try:
                    pending.get_result()
                    answered += 1
                except tritonclient.utils.InferenceServerException as refused:
                    assert "504" in str(refused.status())
            return answered

        end, answered = time.monotonic() + LIMIT_S, 0
        while (most := serving(server)) == 1:
            answered += ask("model", 8)
            assert time.monotonic() < end, "no worker came"
        assert answered > 0
        end = time.monotonic() + LIMIT_S
        while serving(server) >= most:
            assert ask("patient", 1) == 1  # one worker's work
            assert time.monotonic() < end, "no worker went"
        assert ask("patient", 1) == 1
    assert server.stop() == 0, server.log.read_text()
