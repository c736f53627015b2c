"""Dedicated replicas of a pipeline's stages: their threads are where the plan counts them."""

import collections
import os
import pathlib
import re
import urllib.request

import pytest

from conftest import Server
from test_pipelines import ask, write_repository

# On as many processors as there are here, a replica of two threads may run on any.
CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{count: 4}}
services:
  chain:
    kind: pipeline
    slo_ms: 60000
    adapter: {{replicas: dedicated, threads: {{twice: 2}}}}
    stages: [{{name: first, model: plus}}, {{name: second, model: twice}}]
"""
PROCESSORS = os.sched_getaffinity(0)


@pytest.fixture(scope="module")
def replicas(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replicas")
    write_repository(folder / "models")
    server = Server(folder, folder / "models", CONFIG)
    yield server
    assert server.stop() == 0, server.log.read_text()


def allowed(server):
    """The processors of each of the server's threads."""
    rows = []
    for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        rows.append(frozenset(os.sched_getaffinity(int(task.name))))
    return rows


@pytest.mark.skipif(len(PROCESSORS) < 2, reason="on one processor nothing can be pinned elsewhere")
def test_replicas_run_on_processors_of_their_own(replicas):
    outputs, _ = ask(replicas, "chain", [[1, 2]])
    assert outputs["y"].tolist() == [[4, 6]]
    with urllib.request.urlopen(f"http://{replicas.metrics}/metrics") as reply:
        text = reply.read().decode()
    serving = {route: int(count) for route, count in
               re.findall(r'serving_replicas\{.*route="chain/(\w+)/\w+"\} (\d+)', text)}
    assert serving["first"] >= 1 and serving["second"] >= 1
    pinned = collections.Counter(len(own) for own in allowed(replicas) if own < PROCESSORS)
    expected = {1: serving["first"]}
    if len(PROCESSORS) > 2:
        expected[2] = 2 * serving["second"]
    assert pinned == expected
