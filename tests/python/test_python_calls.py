"""Calls of other models by Python models: what they get, how they are counted, and when there is no worker for them."""

import re
import sys
import urllib.request

import numpy as np
import pytest
import tritonclient.grpc
from conftest import ROOT, Server
from python_models import ADD_SUB, ADD_SUB_CONFIG, UPPER, UPPER_CONFIG, WRONG, WRONG_CONFIG, write
from tritonclient.utils import InferenceServerException

CONFIG = """
models: {{models}}
listen: {{{{http: 0, grpc: 0, metrics: 0}}}}
workers: {{{{count: {count}, threads: 1, isolation: process, python: {python}}}}}
"""
# What it calls, and how, is what its input says.
CALLS = '''
import asyncio
import os
import struct
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        how = pb_utils.get_input_tensor_by_name(request, "HOW").as_numpy().item().decode()
        x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
        given = getattr(self, how.replace("-", "_"))(x)
        if given.has_error():
            return pb_utils.InferenceResponse(error=given.error())
        y = given.output_tensors()[0].as_numpy().ravel().astype(np.float32)
        return pb_utils.InferenceResponse([pb_utils.Tensor("Y", y)])

    def call(self, model, output, more=None, **inputs):
        tensors = [pb_utils.Tensor(name, array) for name, array in inputs.items()]
        return pb_utils.InferenceRequest(model_name=model, requested_output_names=[output], inputs=tensors,
                                         **(more or {}))

    def add(self, x):
        return self.call("add-sub", "SUM", A=x, B=x).exec()

    def several(self, x):
        async def all_of_them():
            calls = [self.call("add-sub", "DIFFERENCE", A=x, B=x * i).async_exec() for i in range(3)]
            return await asyncio.gather(*calls)
        arrays = [one.output_tensors()[0].as_numpy() for one in asyncio.run(all_of_them())]
        return pb_utils.InferenceResponse([pb_utils.Tensor("Y", sum(arrays))])

    def onnx(self, x):
        return self.call("identity-fp32", "y", x=x.reshape(1, -1)).exec()

    def texts(self, x):
        shouted = self.call("upper", "UPPER", TEXT=np.array([["abc"]], dtype=object)).exec()
        text = shouted.output_tensors()[0].as_numpy().item()
        return pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.frombuffer(text, np.uint8).astype(np.float32))])

    def left(self, x):
        return self.call("left", "LEFT", X=x).exec()

    def shorter(self, x):
        return self.call("left", "LEFT", {"timeout": 20_000_000}, X=x).exec()

    def missing(self, x):
        return self.call("nobody", "y", X=x).exec()

    def misfit(self, x):
        return self.call("add-sub", "SUM", A=x[:2], B=x).exec()

    def too_late(self, x):
        return self.call("add-sub", "SUM", {"timeout": 1}, A=x, B=x).exec()

    def crash(self, x):
        return self.call("wrong", "OUT", HOW=np.array(["crash"], dtype=object)).exec()

    def itself(self, x):
        return self.call("calls", "Y", HOW=np.array(["itself"], dtype=object), X=x).exec()

    def garbage(self, x):
        os.write(5, b"no call" * 100)
        return self.no_more(x)

    def deep(self, x):
        lists = b"[" * 4_000_000 + b"]" * 4_000_000
        text = b'{"id": 1, "model": "", "version": "", "request_id": "", "parameters": ' + lists + b"}"
        os.write(5, struct.pack("<QQ", len(text), 0) + text)
        return self.no_more(x)

    def no_more(self, x):
        assert self.add(x).has_error()
        return self.add(x)

    def decoupled(self, x):
        return self.call("add-sub", "SUM", A=x, B=x).exec(decoupled=True)
'''
CALLS_CONFIG = '''
backend: "python"
input { name: "HOW" data_type: TYPE_STRING dims: [ 1 ] }
input { name: "X" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }
'''
# What is left of its deadline, in microseconds.
LEFT = '''
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    async def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("LEFT", np.array([request.timeout()], np.float32))])
                for request in requests]
'''
LEFT_CONFIG = '''
backend: "python"
input { name: "X" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "LEFT" data_type: TYPE_FP32 dims: [ 1 ] }
'''
X = np.arange(4, dtype=np.float32)


def serve(folder, count):
    models = folder / "models"
    write(models, "add-sub", ADD_SUB, ADD_SUB_CONFIG)
    write(models, "upper", UPPER, UPPER_CONFIG)
    write(models, "wrong", WRONG, WRONG_CONFIG)
    write(models, "left", LEFT, LEFT_CONFIG)
    write(models, "calls", CALLS, CALLS_CONFIG)
    (models / "identity-fp32").symlink_to(ROOT / "tests" / "data" / "repository" / "identity-fp32")
    return Server(folder, models, CONFIG.format(count=count, python=sys.executable))


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    server = serve(tmp_path_factory.mktemp("calls"), 2)
    yield server
    assert server.stop() == 0, server.log.read_text()


def call(server, how, **more):
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        how_input = tritonclient.grpc.InferInput("HOW", [1], "BYTES")
        how_input.set_data_from_numpy(np.array([how], dtype=object))
        x_input = tritonclient.grpc.InferInput("X", [4], "FP32")
        x_input.set_data_from_numpy(X)
        return client.infer("calls", [how_input, x_input], **more).as_numpy("Y")


def asked(server, model):
    """Requests of a model that ended well, as the metrics have them."""
    with urllib.request.urlopen(f"http://{server.metrics}/metrics") as answer:
        text = answer.read().decode()
    return sum(float(number) for number in re.findall(
        rf'(?m)^nv_inference_request_success{{[^}}]*model="{model}"[^}}]*}} (\S+)', text))


@pytest.mark.parametrize("how, expected", [
    ("add", X + X), ("several", X + (X - X) + (X - 2 * X)), ("onnx", X), ("texts", [65, 66, 67])])
def test_another_model_answers(served, how, expected):
    np.testing.assert_array_equal(call(served, how), expected)


def test_calls_are_requests_of_their_own(served):
    before = asked(served, "add-sub")
    call(served, "add")
    call(served, "several")
    assert asked(served, "add-sub") == before + 4


def test_the_remaining_deadline_goes_along(served):
    assert call(served, "left").item() == 0
    assert 0 < call(served, "left", timeout=60_000_000).item() <= 60_000_000
    assert 0 < call(served, "shorter", timeout=60_000_000).item() <= 20_000_000


@pytest.mark.parametrize("how", ["garbage", "deep"])
def test_a_process_that_writes_nonsense_calls_no_more(tmp_path, how):
    server = serve(tmp_path, 2)
    with pytest.raises(InferenceServerException, match="the server has closed the stream of calls"):
        call(server, how)
    assert server.stop() == 0, server.log.read_text()


@pytest.mark.parametrize("how, expected", [
    ("missing", "nobody"), ("misfit", r"input 'A': shape is \[2\], expected \[4\]"), ("too_late", "deadline|budget"),
    ("crash", "process"), ("decoupled", "decoupled=True.*is not served")])
def test_what_goes_wrong_is_an_error_of_the_answer(served, how, expected):
    with pytest.raises(InferenceServerException, match=expected):
        call(served, how)
    np.testing.assert_array_equal(call(served, "add"), X + X)


def test_models_that_call_each_other_leave_a_worker(served):
    """It calls itself on the other worker, and that may not call any more."""
    with pytest.raises(InferenceServerException, match="no worker is left for the call of 'calls'.*workers.count: 3"):
        call(served, "itself")
    np.testing.assert_array_equal(call(served, "add"), X + X)


def test_with_one_worker_a_call_is_refused_at_once(tmp_path):
    server = serve(tmp_path, 1)
    with pytest.raises(InferenceServerException, match="no worker is left for the call of 'add-sub'.*count: 2"):
        call(server, "add")
    assert server.stop() == 0, server.log.read_text()
