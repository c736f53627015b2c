"""Workers of several types: real sessions of one thread and of two, each with its profile."""

import json
import shutil
import subprocess
import time
import urllib.request

import pytest
import tritonclient.http

from conftest import FERMATA, START_LIMIT_S, ZOO, Server
from tensors import digits, tensor

CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
log_level: info
workers: {{types: [{{name: wide, threads: 2}}, {{name: narrow, count: 2}}]}}
services:
  any: {{kind: variants, variants: [digits-linear, digits-mlp], slo_ms: 60000}}
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers") / "models"
    for name in ("digits-linear", "digits-mlp"):
        shutil.copytree(ZOO / "repository" / name, folder / name)
    return folder


def profile(model, *arguments):
    return subprocess.run([FERMATA, "profile", model, "--runs", "2", *arguments], text=True,
                          capture_output=True, timeout=120, check=True)


@pytest.fixture(scope="module")
def server(models, tmp_path_factory):
    for name in ("digits-linear", "digits-mlp"):
        profile(models / name)
        profile(models / name, "--threads", "2", "--worker-type", "wide")
    server = Server(tmp_path_factory.mktemp("server"), models, CONFIG)
    yield server
    assert server.stop() == 0, server.log.read_text()


def test_each_type_has_a_profile_of_its_own(models, server):
    for name in ("digits-linear", "digits-mlp"):
        assert json.loads((models / name / "profile.json").read_text())["threads"] == 1
        assert json.loads((models / name / "profile.wide.json").read_text())["threads"] == 2
    assert "measured again" not in server.log.read_text()


def test_requests_run_on_workers_of_both_types_and_are_counted_there(server):
    digit = [tensor(tritonclient.http, "image", digits())]
    end, wide, narrow = time.monotonic() + START_LIMIT_S, 0, []
    with tritonclient.http.InferenceServerClient(server.http, concurrency=4) as client:
        while wide == 0 or sum(narrow) == 0:  # those that come one after another may all run on one
            assert time.monotonic() < end
            for name in ("any", "digits-mlp"):
                pending = [client.async_infer(name, digit) for _ in range(200)]
                for each in pending:
                    assert each.get_result().as_numpy("probabilities").shape == (1, 10)
            text = urllib.request.urlopen(f"http://{server.metrics}/metrics").read().decode()
            lines = [line for line in text.splitlines() if line.startswith("fermata_worker_batches_total{")]
            assert [line.split("{")[1].split("}")[0] for line in lines] == [
                'worker="0",type="wide"', 'worker="1",type="narrow"', 'worker="2",type="narrow"']
            wide, *narrow = (float(line.split()[-1]) for line in lines)


@pytest.mark.parametrize("types, said", [
    ("[{name: a}, {name: a}]", 'workers.types[1].name: "a"'),
    ("[{name: a, threads: 0}]", "workers.types[0].threads: 0"),
    ("[{name: a}], count: 3", "workers.count"),
])
def test_what_is_wrong_is_said(models, tmp_path, types, said):
    file = tmp_path / "fermata.yaml"
    file.write_text(f"models: {models}\nworkers: {{types: {types}}}\n")
    done = subprocess.run([FERMATA, "check", file], text=True, capture_output=True, timeout=60)
    assert done.returncode == 2 and said in done.stderr + done.stdout
