"""workers.process_processor_s: a model's process that takes too much processor time is ended, and others go on."""

import re
import sys
import time
import urllib.request

import numpy as np
import pytest
import tritonclient.grpc
from conftest import START_LIMIT_S, Server
from python_models import ADD_SUB, ADD_SUB_CONFIG, write
from tritonclient.utils import InferenceServerException

CONFIG = """
models: {{models}}
listen: {{{{http: 0, grpc: 0, metrics: 0}}}}
workers: {{{{count: 2, isolation: process, python: {python}, process_processor_s: 0.5, run_limit_s: 600}}}}
"""
# It spins where that is asked for: in the run, or beside it when it is over.
SPIN = '''
import threading
import numpy as np
import triton_python_backend_utils as pb_utils

def spin():
    while True:
        pass

class TritonPythonModel:
    def execute(self, requests):
        how = pb_utils.get_input_tensor_by_name(requests[0], "HOW").as_numpy().item()
        if how == 1:
            spin()
        if how == 2:
            threading.Thread(target=spin, daemon=True).start()
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.ones(1, np.float32))]) for _ in requests]
'''
SPIN_CONFIG = '''
backend: "python"
input { name: "HOW" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }
'''


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processor")
    write(folder / "models", "spin", SPIN, SPIN_CONFIG)
    write(folder / "models", "add-sub", ADD_SUB, ADD_SUB_CONFIG)
    server = Server(folder, folder / "models", CONFIG.format(python=sys.executable))
    yield server
    assert server.stop() == 0, server.log.read_text()


def spin(server, how):
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        one = tritonclient.grpc.InferInput("HOW", [1], "INT32")
        one.set_data_from_numpy(np.array([how], np.int32))
        return client.infer("spin", [one]).as_numpy("OUT").tolist()


def add(server):
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        inputs = []
        for name in "AB":
            inputs.append(tritonclient.grpc.InferInput(name, [4], "FP32"))
            inputs[-1].set_data_from_numpy(np.ones(4, np.float32))
        return client.infer("add-sub", inputs).as_numpy("SUM").tolist()


def metric(server, name, labels):
    with urllib.request.urlopen(f"http://{server.metrics}/metrics") as answer:
        found = re.findall(rf"(?m)^{name}{{{labels}}} (\S+)", answer.read().decode())
    return sum(map(float, found))


def await_deaths(server, least):
    """How a process ended is known after its requests are told."""
    end = time.monotonic() + START_LIMIT_S
    while metric(server, "fermata_model_process_deaths_total", 'model="spin",signal="processor"') < least:
        assert time.monotonic() < end, server.log.read_text()


def test_a_run_that_spins_fails_with_the_limit_in_words(served):
    with pytest.raises(InferenceServerException, match=r"taking more than 0.5 s of processor time.*process_processor_s"):
        spin(served, 1)
    assert spin(served, 0) == [1]
    await_deaths(served, 2)
    assert metric(served, "fermata_model_process_processor_seconds_total", 'model="spin"') >= 1
    assert metric(served, "fermata_model_process_deaths_total", 'model="add-sub",signal="[^"]*"') == 0
    assert add(served) == [2, 2, 2, 2]


def test_a_thread_that_spins_beside_its_runs_ends_its_process(served):
    before = metric(served, "fermata_model_process_deaths_total", 'model="spin",signal="processor"')
    assert spin(served, 2) == [1]
    await_deaths(served, before + 1)
    assert spin(served, 0) == [1]
    assert add(served) == [2, 2, 2, 2]
