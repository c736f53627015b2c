"""What is seen of a model's process that dies: the timeline of the live page, metrics, the log."""

import json
import os
import pathlib
import re
import signal
import urllib.request

import numpy as np
import pytest
import tritonclient.http
from conftest import ROOT, Server
from test_live import Events

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


def model_processes(server):
    children = [task / "children" for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir()]
    own = [int(child) for each in children for child in each.read_text().split()]
    return [child for child in own if pathlib.Path(f"/proc/{child}/comm").read_text() == "model-process\n"]


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
