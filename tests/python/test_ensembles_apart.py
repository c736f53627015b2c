"""Ensembles whose models are in processes of their own: one for the models beside the workers, and deaths of base models."""

import re
import shutil
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pytest
from conftest import FERMATA, ROOT, START_LIMIT_S, Server
from python_models import write
from test_ensembles import BASE, MANY, ask, folder, history, values  # noqa: F401

DATA = ROOT / "tests" / "data" / "repository"
CONFIG = """
models: {{models}}
listen: {{{{http: 0, grpc: 0, metrics: 0}}}}
workers: {{{{count: 1, isolation: process, python: {python}}}}}
services:
"""
HELPED = CONFIG + """
  average: {{{{kind: ensemble, models: [base-plain, base-log, base-table], slo_ms: 60000,
             profile: average, predictor: score}}}}
  stacked: {{{{kind: ensemble, models: [base-plain, base-log, base-table], slo_ms: 60000,
             aggregation: stacking, meta: meta, neighbours: 1, profile: stacked}}}}
"""
FRAGILE = CONFIG + """
  both: {{{{kind: ensemble, models: [base-plain, base-log], slo_ms: 60000, profile: both}}}}
"""
# As base-plain, but that it does not survive two at a time.
ALONE = '''
import ctypes
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        if len(requests) > 1:
            ctypes.string_at(0)
        return [pb_utils.InferenceResponse([pb_utils.Tensor(
            "y", pb_utils.get_input_tensor_by_name(request, "x").as_numpy())]) for request in requests]
'''
ALONE_CONFIG = '''
backend: "python"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [ 2 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 2 ] }
'''


def metric(server, name, labels):
    with urllib.request.urlopen(f"http://{server.metrics}/metrics") as answer:
        found = re.findall(rf"(?m)^{name}{{{labels}}} (\S+)", answer.read().decode())
    return sum(map(float, found))


@pytest.fixture
def server(tmp_path):
    yield lambda config, models: Server(tmp_path, models, config.format(python=sys.executable))


def test_models_beside_the_workers_share_a_process(server, folder, tmp_path):  # noqa: F811
    for service in ("average", "stacked"):
        shutil.copytree(folder / service, tmp_path / service)
    one = server(HELPED, folder / "models")
    for service in ("average", "stacked"):
        assert values(ask(one, service, MANY)).shape == (len(MANY), 2)
    assert metric(one, "fermata_model_process_starts_total", r'model="\(helpers\)"') == 1
    for model in BASE:
        assert metric(one, "fermata_model_process_starts_total", f'model="{model}"') >= 1
    assert one.stop() == 0, one.log.read_text()


def test_a_base_model_that_dies_is_asked_again_for_each_query_alone(server, tmp_path):
    """Fitted with base-plain, and served by one that does the same, but dies of the first batch."""
    models = tmp_path / "models"
    models.mkdir()
    for model in ("base-plain", "base-log"):
        (models / model).symlink_to(DATA / model)
    np.save(tmp_path / "history.npy", history())
    done = subprocess.run([FERMATA, "difficulty", "fit", tmp_path / "history.npy", "--repository", models, "--models",
                           "base-plain,base-log", "--out", tmp_path / "both", "--bins", "4", "--task", "regression"],
                          text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (models / "base-plain").unlink()
    write(models, "base-plain", ALONE, ALONE_CONFIG)
    one = server(FRAGILE, models)
    reply = ask(one, "both", MANY)
    assert values(reply) == pytest.approx((np.float32(MANY) + np.log(MANY)) / 2, rel=1e-5)
    end = time.monotonic() + START_LIMIT_S
    while metric(one, "fermata_model_process_deaths_total", 'model="base-plain",signal="SIGSEGV"') != 1:
        assert time.monotonic() < end  # how it ended may be known after its queries are asked again
    assert one.stop() == 0, one.log.read_text()
