"""Where models live when memory is short: a served placement is replayed offline."""

import json
import subprocess
import urllib.request

import jsonschema
import pytest

from conftest import FERMATA, ROOT, Server
from live_decisions import is_timed, replayed

CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{count: 2, executor: emulated, memory_mb: 100}}
placement: {{epoch_s: 0.1}}
"""
MODEL = """
max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: 2 }
output { name: "y" data_type: TYPE_FP32 dims: 2 }
"""
MEMORY_MB = {"a": 60, "b": 50, "c": 40, "giant": 101}


def profile(model, memory_mb):
    times = {"runs": 1, "p50_ms": 1, "p90_ms": 1, "p99_ms": 1, "mean_ms": 1}
    return {"format": 1, "version": 1, "model": model, "model_version": "1",
            "batches": {"1": times, "4": times},
            "linear_ms": {"alpha": 0, "beta": 1, "error": 0},
            "quadratic_ms": {"a": 0, "b": 0, "c": 1, "error": 0},
            "memory_mb": memory_mb, "static_mb": memory_mb - 10}


@pytest.fixture(scope="module")
def short_of_memory(tmp_path_factory):
    folder = tmp_path_factory.mktemp("placement")
    for model, memory_mb in MEMORY_MB.items():
        at = folder / "models" / model
        (at / "1").mkdir(parents=True)
        (at / "config.pbtxt").write_text(MODEL)
        (at / "profile.json").write_text(json.dumps(profile(model, memory_mb)))
    server = Server(folder, folder / "models", CONFIG)
    yield server
    assert server.stop() == 0, server.log.read_text()


def get(url):
    with urllib.request.urlopen(url) as reply:
        return reply.read().decode()


def placement(server):
    return json.loads(get(f"http://{server.http}/v2/fermata/placement"))


def infer(server, model):
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}
    request = urllib.request.Request(f"http://{server.http}/v2/models/{model}/infer",
                                     json.dumps(body).encode())
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)


def test_models_are_spread_and_all_answer(short_of_memory):
    subclusters = placement(short_of_memory)["subclusters"]
    assert [row["workers"] for row in subclusters] == [[0], [1]]
    assert sorted(model for row in subclusters for model in row["models"]) == ["a", "b", "c"]
    assert all(row["used_mb"] <= 100 for row in subclusters)
    for model in ("a", "b", "c"):
        assert infer(short_of_memory, model)["model_name"] == model


def test_the_index_says_what_has_no_room(short_of_memory):
    request = urllib.request.Request(f"http://{short_of_memory.http}/v2/repository/index", b"")
    with urllib.request.urlopen(request) as reply:
        row = next(row for row in json.load(reply) if row["name"] == "giant")
    assert row["state"] == "UNAVAILABLE"
    assert "it needs 101 MiB, a worker has 100 MiB" in row["reason"]


def test_every_decision_gives_the_same_answer_offline(short_of_memory):
    decisions = placement(short_of_memory)["decisions"]
    assert decisions
    schemas = {name: json.loads((ROOT / "docs" / "schemas" / f"{name}.schema.json").read_text())
               for name in ("placement", "placement.result")}
    for decision in decisions:
        jsonschema.validate(decision["problem"], schemas["placement"])
        jsonschema.validate(decision["answer"], schemas["placement.result"])
        offline = subprocess.run([FERMATA, "plan", "placement", "-"], text=True, timeout=120,
                                 input=json.dumps(decision["problem"]), capture_output=True)
        assert json.loads(offline.stdout) == decision["answer"]


def test_the_live_page_has_the_last_decision(short_of_memory):
    assert is_timed(replayed(short_of_memory)["placement"])


def test_epochs_end_by_themselves(short_of_memory):
    # The timer's thread ends one every tenth of a second; each reply takes some of that.
    for _ in range(100_000):
        text = get(f"http://{short_of_memory.metrics}/metrics")
        if "fermata_placement_rate_imbalance_ratio" in text:
            break
    assert 'fermata_model_subcluster{model="a"}' in text
    assert "fermata_placement_rate_imbalance_ratio" in text
