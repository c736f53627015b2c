"""Python models as Triton has them: what clients, `check` and the log see of them."""

import concurrent.futures
import json
import pickle
import re
import subprocess
import sys
import time
import types

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from python_models import (ADD_SUB, ADD_SUB_CONFIG, COUNT, NOT_READY, REGRESSION, REGRESSION_CONFIG, UPPER,
                           UPPER_CONFIG, WRONG, WRONG_CONFIG, write)
from conftest import FERMATA, Server, triton_of
from hosted import LIMIT_S, sum_metric
from tritonclient.utils import InferenceServerException

CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{count: 1, threads: 1, isolation: process, python: PYTHON}}
""".replace("PYTHON", sys.executable)
# Answers as no model should.
ODD = WRONG.replace("""        return [self.answer(request) for request in requests]
""", """        how = pb_utils.get_input_tensor_by_name(requests[0], "HOW").as_numpy().item().decode()
        if how == "single":
            return self.answer(requests[0])
        answers = (self.answer(request) for request in requests)
        return {"generator": answers, "none": None}[how] if how in ("generator", "none") else list(answers)
""").replace("""        if how == "error":
""", """        if how == "cancelled":
            import asyncio
            raise asyncio.CancelledError("by itself")
        if how == "code":
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("an odd code", 1.0))
        if how == "surrogate":
            return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.ones(1, np.float32)),
                                               pb_utils.Tensor("TOLD", np.array(["a" + chr(0xd800)], dtype=object))])
        if how == "error":
""")
WEIGHTS = np.array([[1, 0], [0, 1], [1, 1]], np.float32)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("python-models")
    models = folder / "models"
    write(models, "add-sub", ADD_SUB, ADD_SUB_CONFIG)
    write(models, "upper", UPPER, UPPER_CONFIG)
    write(models, "count", COUNT)
    np.save(write(models, "regression", REGRESSION, REGRESSION_CONFIG) / "weights.npy", WEIGHTS)
    write(models, "wrong", WRONG, WRONG_CONFIG)
    write(models, "odd", ODD, WRONG_CONFIG)
    write(models, "not-ready", NOT_READY, ADD_SUB_CONFIG)
    server = Server(folder, models, CONFIG)
    yield server
    assert server.stop() == 0, server.log.read_text()


@pytest.fixture(params=["http", "grpc"])
def client(request, served):
    with triton_of(served, request.param) as one:
        yield one


def infer(client, model, arrays, **more):
    types_of = {np.dtype(np.float32): "FP32", np.dtype(np.int32): "INT32", np.dtype(object): "BYTES"}
    inputs = []
    for name, array in arrays.items():
        one = client.module.InferInput(name, list(array.shape), types_of[array.dtype])
        one.set_data_from_numpy(array)
        inputs.append(one)
    return client.client.infer(model, inputs, **more)


def wrong(client, how, model="wrong", **more):
    return infer(client, model, {"HOW": np.array([how], dtype=object)}, **more)


def test_it_adds_and_subtracts(client):
    a, b = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    reply = infer(client, "add-sub", {"A": a, "B": b})
    np.testing.assert_array_equal(reply.as_numpy("SUM"), a + b)
    np.testing.assert_array_equal(reply.as_numpy("DIFFERENCE"), a - b)


def test_only_the_outputs_that_are_asked_for_come(client):
    a = np.arange(4, dtype=np.float32)
    reply = infer(client, "add-sub", {"A": a, "B": a}, outputs=[client.module.InferRequestedOutput("DIFFERENCE")])
    np.testing.assert_array_equal(reply.as_numpy("DIFFERENCE"), a - a)
    assert reply.as_numpy("SUM") is None


def test_texts_come_and_go(client):
    texts = np.array([[b"one", "z\u00fcrich".encode()], [b"", b"three"]], dtype=object)
    reply = infer(client, "upper", {"TEXT": texts}).as_numpy("UPPER")
    assert reply.tolist() == [[b"ONE", "Z\u00dcRICH".encode()], [b"", b"THREE"]]


def test_it_reads_files_beside_it(client):
    x = np.array([[1, 2, 3], [0, 0, 0]], np.float32)
    shares = infer(client, "regression", {"X": x}).as_numpy("SHARES")
    powers = np.exp(x @ WEIGHTS)
    np.testing.assert_allclose(shares, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)


def test_a_configuration_completes_itself(client, served):
    with tritonclient.http.InferenceServerClient(served.http) as http:
        metadata, config = http.get_model_metadata("count"), http.get_model_config("count")
    assert metadata["platform"] == "python"
    assert metadata["inputs"] == [{"name": "X", "datatype": "INT32", "shape": [-1, 1]}]
    assert (config["max_batch_size"], config["backend"]) == (16, "python")
    assert infer(client, "count", {"X": np.zeros((3, 1), np.int32)}).as_numpy("TOGETHER").shape == (3, 1)


def test_requests_run_together(served):
    """Many at once on one worker: some meet in an execute, each with its own tensors."""
    with tritonclient.grpc.InferenceServerClient(served.grpc) as grpc:
        client = types.SimpleNamespace(module=tritonclient.grpc, client=grpc)
        x = np.zeros((1, 1), np.int32)
        end, most = time.monotonic() + LIMIT_S, 1
        while most == 1:
            assert time.monotonic() < end
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                replies = list(pool.map(lambda _: infer(client, "count", {"X": x}).as_numpy("TOGETHER"), range(400)))
            assert all(reply.shape == (1, 1) for reply in replies)
            most = max(reply.item() for reply in replies)


@pytest.mark.parametrize("how, expected", [
    ("error", "not this one"),
    ("raise", r"model.py:\d+: ValueError: all of them"),
    ("shape", r"output 'OUT' has shape \[7, 7\], expected \[1\]"),
    ("type", r"output 'OUT' has numpy's type float64, the configuration has FP32"),
    ("nothing", "has no output 'OUT'"),
    ("write", "may not write files"),
    ("connect", "open sockets"),
    ("call", "no worker is left for the call of 'other'.*workers.count: 2 or more"),
])
def test_what_goes_wrong_is_said(client, how, expected):
    with pytest.raises(InferenceServerException, match=expected):
        wrong(client, how)
    assert wrong(client, "well").as_numpy("OUT").tolist() == [1]


@pytest.mark.parametrize("how, expected", [
    ("single", "execute returned InferenceResponse, expected a list"),
    ("generator", "execute returned generator, expected a list"),
    ("none", "execute returned NoneType, expected a list"),
    ("cancelled", r"model.py:\d+: .*CancelledError: by itself"),
    ("code", "an odd code"),
    ("surrogate", "output 'TOLD': text 0 cannot be written as UTF-8"),
])
def test_an_odd_answer_ends_its_request_only(client, how, expected):
    """Its process answers at once and serves on."""
    with pytest.raises(InferenceServerException, match=expected):
        wrong(client, how, "odd")
    assert wrong(client, "well", "odd").as_numpy("OUT").tolist() == [1]


def test_an_odd_load_is_an_error(tmp_path):
    write(tmp_path / "models", "odd", "import asyncio\nraise asyncio.CancelledError('by itself')\n", ADD_SUB_CONFIG)
    assert re.search(r"odd/1/model.py:2: .*CancelledError: by itself", check(tmp_path).stderr)


def test_it_is_told_of_the_request(client):
    told = wrong(client, "told", request_id="r7", timeout=60_000_000, parameters={"tone": "low", "n": 3})
    words, parameters = re.fullmatch(r"(.*?) (\{.*\}) True False", told.as_numpy("TOLD").item().decode()).groups()
    assert words == "r7"
    assert json.loads(parameters) == {"tone": "low", "n": 3}


@pytest.mark.parametrize("how", ["exit", "crash"])
def test_one_that_ends_its_process_ends_no_other(client, how):
    with pytest.raises(InferenceServerException, match="process"):
        wrong(client, how)
    a = np.zeros(4, np.float32)
    assert infer(client, "add-sub", {"A": a, "B": a}).as_numpy("SUM").tolist() == [0] * 4
    assert wrong(client, "well").as_numpy("OUT").tolist() == [1]


def test_what_it_prints_is_logged(client, served):
    a = np.zeros(4, np.float32)
    infer(client, "add-sub", {"A": a, "B": a})
    end = time.monotonic() + LIMIT_S
    while "model 'add-sub': ready as add-sub" not in served.log.read_text():
        assert time.monotonic() < end


def test_one_that_does_not_initialise_is_unavailable(served):
    with tritonclient.http.InferenceServerClient(served.http) as http:
        rows = {row["name"]: row for row in http.get_model_repository_index()}
    assert rows["not-ready"]["state"] == "UNAVAILABLE"
    assert re.search(r"model.py:4: RuntimeError: no weights today", rows["not-ready"]["reason"])
    assert rows["add-sub"]["state"] == "READY"


def check(folder, python=sys.executable):
    config = folder / "fermata.yaml"
    config.write_text(CONFIG.format(models=folder / "models").replace(sys.executable, str(python)))
    return subprocess.run([FERMATA, "check", config], capture_output=True, text=True, timeout=120)


def test_check_names_what_is_not_served(tmp_path):
    group = 'instance_group { kind: KIND_GPU }\nparameters { key: "mine" value { string_value: "x" } }\n'
    write(tmp_path / "models", "add-sub", ADD_SUB, ADD_SUB_CONFIG + group)
    write(tmp_path / "models", "many", ADD_SUB, ADD_SUB_CONFIG + "model_transaction_policy { decoupled: true }\n")
    result = check(tmp_path)
    assert "KIND_GPU" in result.stderr and "mine" not in result.stderr
    assert "decoupled is true, but every request gets one reply" in result.stderr


def test_check_names_the_line(tmp_path):
    write(tmp_path / "models", "broken", "import missing_package\n", ADD_SUB_CONFIG)
    write(tmp_path / "models", "classless", "x = 1\n", ADD_SUB_CONFIG)
    result = check(tmp_path)
    assert result.returncode != 0
    assert re.search(r"broken/1/model.py:1: ModuleNotFoundError: .*missing_package", result.stderr)
    assert "has no class TritonPythonModel" in result.stderr


def test_a_python_that_is_not_there_is_named(tmp_path):
    write(tmp_path / "models", "add-sub", ADD_SUB, ADD_SUB_CONFIG)
    assert "expected a Python that is there" in check(tmp_path, tmp_path / "python").stderr
    own = f'parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "{tmp_path}" }} }}\n'
    (tmp_path / "models" / "add-sub" / "config.pbtxt").write_text(ADD_SUB_CONFIG + own)
    assert "has no bin/python3" in check(tmp_path).stderr


def test_a_python_without_numpy_says_what_to_do(tmp_path):
    """A virtual environment of its own, named by the model."""
    write(tmp_path / "models", "add-sub", ADD_SUB, ADD_SUB_CONFIG +
          'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/venv" } }\n')
    venv = tmp_path / "models" / "add-sub" / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    result = check(tmp_path)
    assert "cannot import numpy" in result.stderr and "pip install" in result.stderr


def test_a_loop_without_an_end_is_stopped(tmp_path):
    """Its process goes on; the next request of it is answered."""
    loop = WRONG.replace('if how == "error"', 'while how == "loop":\n            pass\n        if how == "error"')
    write(tmp_path / "models", "wrong", loop, WRONG_CONFIG)
    server = Server(tmp_path, tmp_path / "models", CONFIG.replace("isolation:", "run_limit_s: 5, isolation:"))
    with tritonclient.http.InferenceServerClient(server.http) as http:
        client = types.SimpleNamespace(module=tritonclient.http, client=http)
        end, before, deaths = time.monotonic() + LIMIT_S, None, 0
        while deaths != before:  # one that gets no processor for a while after it was told to stop is ended
            assert time.monotonic() < end, server.log.read_text()
            with pytest.raises(InferenceServerException, match="was stopped after"):
                wrong(client, "loop")
            assert wrong(client, "well").as_numpy("OUT").tolist() == [1]
            before, deaths = deaths, sum_metric(server.metrics, "fermata_model_process_deaths_total", model="wrong")
    assert server.stop() == 0, server.log.read_text()


def test_a_script_that_starts_python_is_asked_which(tmp_path):
    """As version managers install: where models run it could not start anything."""
    write(tmp_path / "models", "add-sub", ADD_SUB, ADD_SUB_CONFIG)
    script = tmp_path / "python3"
    script.write_text(f'#!/bin/sh\nfound="$(command -v {sys.executable})"\nexec "$found" "$@"\n')
    script.chmod(0o755)
    server = Server(tmp_path, tmp_path / "models", CONFIG.replace(sys.executable, str(script)))
    with tritonclient.http.InferenceServerClient(server.http) as http:
        assert http.is_model_ready("add-sub"), server.log.read_text()
    assert server.stop() == 0, server.log.read_text()


def test_a_script_that_a_model_names_is_not_run(tmp_path):
    """It would run as the server, and not as models do."""
    config = ADD_SUB_CONFIG + 'parameters { key: "EXECUTION_ENV_PATH" ' \
        'value { string_value: "$$TRITON_MODEL_DIRECTORY/python3" } }\n'
    model = write(tmp_path / "models", "add-sub", ADD_SUB, config).parent
    write(tmp_path / "models", "upper", UPPER, UPPER_CONFIG)
    script, ran = model / "python3", tmp_path / "ran"
    script.write_text(f'#!/bin/sh\ntouch {ran}\necho {sys.executable}\n')
    script.chmod(0o755)
    server = Server(tmp_path, tmp_path / "models", CONFIG)
    with tritonclient.http.InferenceServerClient(server.http) as http:
        assert not http.is_model_ready("add-sub") and http.is_model_ready("upper")
    assert "python3', a script, which the server would have to run with its own rights" in server.log.read_text()
    assert not ran.exists()
    assert server.stop() == 0, server.log.read_text()


def test_it_is_a_stage_of_a_pipeline(tmp_path):
    write(tmp_path / "models", "add-sub", ADD_SUB, ADD_SUB_CONFIG)
    server = Server(tmp_path, tmp_path / "models", CONFIG + """
services:
  twice:
    kind: pipeline
    slo_ms: 60000
    stages:
      - {{name: first, service: add-sub}}
      - {{name: second, service: add-sub, after: [first], inputs: {{A: first.SUM, B: first.DIFFERENCE}}}}
    outputs: {{TOTAL: second.SUM}}
""")
    with tritonclient.http.InferenceServerClient(server.http) as http:
        client = types.SimpleNamespace(module=tritonclient.http, client=http)
        a, b = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
        np.testing.assert_array_equal(infer(client, "twice", {"A": a, "B": b}).as_numpy("TOTAL"), 2 * a)
    assert server.stop() == 0, server.log.read_text()


def test_it_is_loaded_and_unloaded(client, served):
    client.client.unload_model("add-sub")
    assert not client.client.is_model_ready("add-sub")
    client.client.load_model("add-sub")
    a = np.ones(4, np.float32)
    assert infer(client, "add-sub", {"A": a, "B": a}).as_numpy("SUM").tolist() == [2] * 4


def test_threads_of_the_server_do_not_run_it(tmp_path):
    write(tmp_path / "models", "add-sub", ADD_SUB, ADD_SUB_CONFIG)
    config = tmp_path / "fermata.yaml"
    config.write_text(CONFIG.format(models=tmp_path / "models").replace("isolation: process", "isolation: thread"))
    result = subprocess.run([FERMATA, "check", config], capture_output=True, text=True, timeout=120)
    assert "write `workers: {isolation: process}` in fermata.yaml" in result.stderr


def test_it_can_be_profiled(tmp_path):
    """With the Python that its configuration names."""
    write(tmp_path / "models", "upper", COUNT,
          f'backend: "python"\nparameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "{sys.executable}" }} }}\n')
    subprocess.run([FERMATA, "profile", tmp_path / "models" / "upper", "--runs", "3"], check=True, timeout=120)
    profile = json.loads((tmp_path / "models" / "upper" / "profile.json").read_text())
    assert "1" in profile["batches"]


def test_scikit_learn_runs_in_it(tmp_path):
    """Trained and stored as its users do, with its own threads and no others."""
    linear = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed")
    x = np.array([[0, 0], [0, 1], [4, 4], [4, 5]], np.float32)
    trained = linear.LogisticRegression().fit(x, [0, 0, 1, 1])
    version = write(tmp_path / "models", "classes", '''
import os
import pickle
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        with open(os.path.join(pb_utils.get_model_dir(), "trained.pickle"), "rb") as file:
            self.trained = pickle.load(file)

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("CLASS", self.trained.predict(
            pb_utils.get_input_tensor_by_name(request, "X").as_numpy()).astype(np.int64).reshape(-1, 1))])
            for request in requests]
''', '''
backend: "python"
max_batch_size: 16
input { name: "X" data_type: TYPE_FP32 dims: [ 2 ] }
output { name: "CLASS" data_type: TYPE_INT64 dims: [ 1 ] }
''')
    (version / "trained.pickle").write_bytes(pickle.dumps(trained))
    server = Server(tmp_path, tmp_path / "models", CONFIG)
    with tritonclient.http.InferenceServerClient(server.http) as http:
        client = types.SimpleNamespace(module=tritonclient.http, client=http)
        assert infer(client, "classes", {"X": x}).as_numpy("CLASS").ravel().tolist() == trained.predict(x).tolist()
    assert server.stop() == 0, server.log.read_text()
