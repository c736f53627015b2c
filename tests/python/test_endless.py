"""A model whose run never ends and does not hear that it should, in a server that goes on without it."""

import http.client
import json
import shutil
import threading
import time

import pytest

from conftest import ROOT, START_LIMIT_S, Server

DATA = ROOT / "tests" / "data"
CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{count: 1, run_limit_s: 5}}
"""
BOXES = 5e5  # that are compared in pairs: many minutes


@pytest.fixture
def models(tmp_path):
    models = tmp_path / "models"
    for model in ("hostile/deaf", "repository/identity-fp32"):
        shutil.copytree(DATA / model, models / model.split("/")[1])
    return models


def ask(address, path, body=None):
    connection = http.client.HTTPConnection(address, timeout=START_LIMIT_S)
    connection.request("GET" if body is None else "POST", path, body)
    reply = connection.getresponse()
    return reply.status, reply.read().decode()


def infer(server, model, value, columns=1):
    data = {"name": "x", "shape": [1, columns], "datatype": "FP32", "data": [value] * columns}
    return ask(server.http, f"/v2/models/{model}/infer", json.dumps({"inputs": [data]}))


def is_ready(server):
    return ask(server.http, "/v2/health/ready")[0] == 200


def sum_of(server, metric, *labels):
    lines = ask(server.metrics, "/metrics")[1].splitlines()
    return sum(float(line.split()[-1]) for line in lines
               if line.startswith(metric + "{") and all(label in line for label in labels))


def test_a_run_that_never_ends_fails_once_and_the_server_goes_on(tmp_path, models):
    server = Server(tmp_path, models, CONFIG)
    try:
        end, seen, runs = time.monotonic() + 2 * START_LIMIT_S, set(), 0
        while seen != {"not ready", "overdue"}:  # from its limit until it has been ended, which is not long
            assert time.monotonic() < end
            assert infer(server, "deaf", 1)[0] == 200 and is_ready(server)
            replies = []
            asked = threading.Thread(target=lambda: replies.append(infer(server, "deaf", BOXES)))
            asked.start()
            while not replies:
                seen |= {"overdue"} if sum_of(server, "fermata_worker_overdue") == 1 else set()
                seen |= {"not ready"} if not is_ready(server) else set()
                assert ask(server.http, "/v2/health/live")[0] == 200
            asked.join()
            runs += 1
            status, text = replies[0]
            assert status == 500 and "was stopped after" in text
        assert is_ready(server)
        assert sum_of(server, "fermata_worker_overdue") == 0
        assert sum_of(server, "fermata_worker_renewals_total") == runs
        assert sum_of(server, "fermata_requests_total", 'deaf', 'outcome="failed"') == runs
        assert infer(server, "identity-fp32", 1, columns=2)[0] == 200
        assert infer(server, "deaf", 1)[0] == 200  # by a new executor
    finally:
        assert server.stop() == 0, server.log.read_text()  # its thread is in the model still
