"""What is seen of a model's process that dies: the timeline of the live page, metrics, the log."""

import contextlib
import json
import os
import pathlib
import re
import signal
import time
import urllib.request

import numpy as np
import pytest
import tritonclient.http
from conftest import ROOT, Server
from hosted import sum_metric
from test_live import Events

LIMIT_S = 120

CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{count: 2, isolation: process, standby: 1}}
"""


@pytest.fixture
def server(tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    (models / "gather").symlink_to(ROOT / "tests" / "data" / "repository" / "gather")
    server = Server(tmp_path, models, CONFIG)
    yield server
    assert server.stop() == 0, server.log.read_text()


def text_of(file):
    try:
        return file.read_text().strip()
    except (FileNotFoundError, ProcessLookupError):  # what it is of has just ended
        return ""


def model_processes(server, name="model-process"):
    """Those with this name; None: all."""
    tasks = pathlib.Path(f"/proc/{server.process.pid}/task").iterdir()
    own = [int(child) for task in tasks for child in text_of(task / "children").split()]
    return [child for child in own if name in (None, text_of(pathlib.Path(f"/proc/{child}/comm")))]


def infer(client):
    index = tritonclient.http.InferInput("index", [1, 1], "INT64")
    index.set_data_from_numpy(np.array([[2]], np.int64))
    return client.infer("gather", [index]).as_numpy("value").tolist()


def test_a_death_is_in_the_timeline_and_in_the_metrics(server):
    with Events(server) as events, tritonclient.http.InferenceServerClient(server.http, network_timeout=120) as client:
        events.next("hello")
        assert infer(client) == [[20]]
        for process in model_processes(server):
            os.kill(process, signal.SIGSEGV)
        deaths = []
        while not deaths:
            _, timeline = events.next("timeline")
            deaths = timeline["deaths"]
            assert infer(client) == [[20]]  # so that there are events
    assert {death["worker"] for death in deaths} <= {0, 1}
    assert {(death["model"], death["signal"]) for death in deaths} == {("gather", "SIGSEGV")}
    with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=120) as reply:
        text = reply.read().decode()
    assert re.search(r'fermata_model_process_deaths_total\{model="gather",signal="SIGSEGV"\} [12]\b', text)
    assert "fermata_processors " in text and "fermata_throttled_seconds_total " in text
    with urllib.request.urlopen(f"http://{server.http}/v2/live/trace", timeout=120) as reply:
        names = [event["name"] for event in json.load(reply)["traceEvents"]]
    assert "gather died (SIGSEGV)" in names


def not_served(server):
    """Why not; empty: it is."""
    request = urllib.request.Request(f"http://{server.http}/v2/repository/index", method="POST")
    with urllib.request.urlopen(request, timeout=120) as reply:
        return next(row.get("reason", "") for row in json.load(reply) if row["name"] == "gather")


def test_a_model_that_is_withdrawn_for_its_deaths_is_quarantined_in_the_metrics_until_it_is_served(server):
    end = time.monotonic() + LIMIT_S
    while True:
        assert time.monotonic() < end, server.log.read_text()
        for process in model_processes(server):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if "in quarantine" not in not_served(server):
            continue
        value = sum_metric(server.metrics, "fermata_model_quarantined", model="gather")
        if "in quarantine" in not_served(server):  # at all times between
            assert value == 1
            break
    while sum_metric(server.metrics, "fermata_model_quarantined", model="gather") == 1:
        assert time.monotonic() < end, server.log.read_text()
    with tritonclient.http.InferenceServerClient(server.http, network_timeout=LIMIT_S) as client:
        assert infer(client) == [[20]]
