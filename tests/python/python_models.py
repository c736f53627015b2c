"""Model repositories of Python models for the tests, each as Triton's interface asks."""

import textwrap

ADD_SUB = '''
import json
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        out = pb_utils.get_output_config_by_name(config, "SUM")
        self.dtype = pb_utils.triton_string_to_numpy(out["data_type"])
        print("ready as", args["model_name"])

    def execute(self, requests):
        responses = []
        for request in requests:
            a = pb_utils.get_input_tensor_by_name(request, "A").as_numpy()
            b = pb_utils.get_input_tensor_by_name(request, "B").as_numpy()
            responses.append(pb_utils.InferenceResponse(output_tensors=[
                pb_utils.Tensor("SUM", (a + b).astype(self.dtype)),
                pb_utils.Tensor("DIFFERENCE", (a - b).astype(self.dtype))]))
        return responses

    def finalize(self):
        print("bye")
'''
ADD_SUB_CONFIG = '''
backend: "python"
input { name: "A" data_type: TYPE_FP32 dims: [ 4 ] }
input { name: "B" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "SUM" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "DIFFERENCE" data_type: TYPE_FP32 dims: [ 4 ] }
'''

UPPER = '''
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()
            upper = np.array([text.decode().upper().encode() for text in texts.ravel()], dtype=np.object_)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("UPPER", upper.reshape(texts.shape))]))
        return responses
'''
UPPER_CONFIG = '''
backend: "python"
max_batch_size: 8
input { name: "TEXT" data_type: TYPE_STRING dims: [ -1 ] }
output { name: "UPPER" data_type: TYPE_STRING dims: [ -1 ] }
'''

# Says itself what it takes; answers with the number of requests that ran together.
COUNT = '''
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "X", "data_type": "TYPE_INT32", "dims": [1]})
        config.add_output({"name": "TOGETHER", "data_type": "TYPE_INT32", "dims": [1]})
        config.set_max_batch_size(16)
        config.set_dynamic_batching()
        return config

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("TOGETHER", np.full(
            pb_utils.get_input_tensor_by_name(request, "X").as_numpy().shape, len(requests), np.int32))])
            for request in requests]
'''

# Softmax regression with weights from a file beside it, as one from scikit-learn would be.
REGRESSION = '''
import os
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.weights = np.load(os.path.join(args["model_repository"], args["model_version"], "weights.npy"))

    def execute(self, requests):
        rows = [pb_utils.get_input_tensor_by_name(r, "X").as_numpy() for r in requests]
        scores = np.concatenate(rows) @ self.weights
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares = (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)
        parts = np.split(shares, np.cumsum([len(r) for r in rows])[:-1])
        return [pb_utils.InferenceResponse([pb_utils.Tensor("SHARES", part)]) for part in parts]
'''
REGRESSION_CONFIG = '''
backend: "python"
max_batch_size: 32
input { name: "X" data_type: TYPE_FP32 dims: [ 3 ] }
output { name: "SHARES" data_type: TYPE_FP32 dims: [ 2 ] }
'''

# What goes wrong is what its input says.
WRONG = '''
import ctypes
import socket
import sys
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        how = pb_utils.get_input_tensor_by_name(request, "HOW").as_numpy().item().decode()
        if how == "error":
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("not this one", pb_utils.TritonError.INVALID_ARG))
        if how == "raise":
            raise ValueError("all of them")
        if how == "exit":
            sys.exit(3)
        if how == "crash":
            ctypes.string_at(0)
        if how == "shape":
            return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.zeros((7, 7), np.float32))])
        if how == "type":
            return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.zeros((1,), np.float64))])
        if how == "nothing":
            return pb_utils.InferenceResponse([])
        if how == "write":
            open("/tmp/fermata-python-model", "w")
        if how == "connect":
            socket.socket()
        if how == "call":
            other = pb_utils.InferenceRequest(model_name="other", requested_output_names=["y"], inputs=[])
            raise pb_utils.TritonModelException(other.exec().error().message())
        if how == "told":
            text = f"{request.request_id()} {request.parameters()} {request.timeout() > 0} {request.is_cancelled()}"
            return pb_utils.InferenceResponse([pb_utils.Tensor("TOLD", np.array([text], dtype=object)),
                                               pb_utils.Tensor("OUT", np.zeros(1, np.float32))])
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.ones(1, np.float32)),
                                           pb_utils.Tensor("TOLD", np.array([b""], dtype=object))])
'''
WRONG_CONFIG = '''
backend: "python"
input { name: "HOW" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "TOLD" data_type: TYPE_STRING dims: [ 1 ] }
'''

NOT_READY = '''
class TritonPythonModel:
    def initialize(self, args):
        raise RuntimeError("no weights today")

    def execute(self, requests):
        return []
'''


def write(repository, name, code, config=None):
    """A model of the repository; its version's folder."""
    version = repository / name / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(textwrap.dedent(code))
    if config is not None:
        (version.parent / "config.pbtxt").write_text(textwrap.dedent(config))
    return version
