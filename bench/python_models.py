#!/usr/bin/env python3
"""An empty Python model against an empty ONNX model, at the client: what does Python add to a request?

    make build && scripts/deps.sh test && .deps/test/bin/python bench/python_models.py [--requests 3000]

Both take four floats and give them back, in processes of their own, on one server with one worker. One client asks
them in turn over one gRPC connection, so that both meet the same machine. Writes bench/results/python_models.json,
and exits with 1 where the median differs by more than 100 us."""

import argparse
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np
import record
import server
import tritonclient.grpc

ONNX = server.ROOT / "tests" / "data" / "repository" / "identity-fp32"
MOST_US = 100
CODE = '''
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor(
            "y", pb_utils.get_input_tensor_by_name(request, "x").as_numpy())]) for request in requests]
'''
CONFIG = '''
backend: "python"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }
'''


def write_models(repository):
    repository.mkdir()
    (repository / "onnx").symlink_to(ONNX)
    version = repository / "python" / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(CODE)
    (version.parent / "config.pbtxt").write_text(CONFIG)


def measure(url, requests):
    """Microseconds by model."""
    took = {"onnx": [], "python": []}
    with tritonclient.grpc.InferenceServerClient(url) as client:
        names = {model: client.get_model_metadata(model) for model in took}
        inputs = {}
        for model, metadata in names.items():
            one = tritonclient.grpc.InferInput(metadata.inputs[0].name, [1, 4], "FP32")
            one.set_data_from_numpy(np.ones((1, 4), np.float32))
            inputs[model] = [one]
        for i in range(requests + 200):
            for model in took:
                start = time.perf_counter_ns()
                client.infer(model, inputs[model])
                if i >= 200:
                    took[model].append((time.perf_counter_ns() - start) / 1000)
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=3000, help="of each model")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        models = pathlib.Path(folder) / "models"
        write_models(models)
        with server.Server({"models": str(models), "log_level": "warning", "workers": {
                "count": 1, "isolation": "process", "python": sys.executable}}) as one:
            took = measure(f"127.0.0.1:{one.grpc}", arguments.requests)
    medians = {model: round(statistics.median(times), 1) for model, times in took.items()}
    p99 = {model: round(statistics.quantiles(times, n=100)[98], 1) for model, times in took.items()}
    added = round(medians["python"] - medians["onnx"], 1)
    print(f"p50 us: {medians}; p99 us: {p99}; Python adds {added} us to the median")
    record.write("python_models", {"requests": arguments.requests, "p50_us": medians, "p99_us": p99,
                                   "added_p50_us": added, "expected_at_most_us": MOST_US})
    return 0 if added <= MOST_US else 1


if __name__ == "__main__":
    sys.exit(main())
