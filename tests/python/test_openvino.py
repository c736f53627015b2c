"""OpenVINO's models beside ONNX's: what clients, `check` and the index see of them."""

import json
import pathlib
import shutil
import subprocess
import types

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from conftest import FERMATA, ROOT, ZOO, Server, triton_of
from tritonclient.utils import InferenceServerException

OPENVINO = ROOT / ".deps" / "openvino"
WRITER = pathlib.Path(__file__).with_name("openvino_models.py")
CONFIG = """
models: {{models}}
listen: {{{{http: 0, grpc: 0, metrics: 0}}}}
workers: {{{{count: 2, threads: 1, isolation: {isolation}, openvino: {library}, run_limit_s: 5}}}}
"""
ONNX = ZOO / "repository" / "digits-cnn-medium" / "1" / "model.onnx"


def config(isolation="process", library=OPENVINO):
    return CONFIG.format(isolation=isolation, library=library)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Written by OpenVINO's own Python."""
    python = OPENVINO / "bin" / "python"
    if not python.exists():
        pytest.skip("OpenVINO is not there: scripts/deps.sh openvino installs it")
    folder = tmp_path_factory.mktemp("openvino") / "models"
    folder.mkdir()
    (folder / "digits-onnx").symlink_to(ONNX.parents[1])
    for kind, name in (("onnx", "digits"), ("scaled", "scaled"), ("nameless", "nameless"), ("counted", "counted")):
        subprocess.run([python, WRITER, kind, folder / name / "1", *([ONNX] if kind == "onnx" else [])], check=True,
                       timeout=300)
    (folder / "counted" / "config.pbtxt").write_text("max_batch_size: 0")
    (folder / "broken" / "1").mkdir(parents=True)
    (folder / "broken" / "1" / "model.xml").write_text("<?xml version='1.0'?><net name='n' version='11'><layers>")
    (folder / "broken" / "1" / "model.bin").write_bytes(b"")
    (folder / "without-weights" / "1").mkdir(parents=True)
    shutil.copy(folder / "scaled" / "1" / "model.xml", folder / "without-weights" / "1")
    return folder


@pytest.fixture(scope="module", params=["thread", "process"])
def served(request, models, tmp_path_factory):
    server = Server(tmp_path_factory.mktemp(request.param), models, config(request.param))
    server.isolation = request.param
    yield server
    assert server.stop() == 0, server.log.read_text()


@pytest.fixture(params=["http", "grpc"])
def client(request, served):
    with triton_of(served, request.param) as one:
        yield one


def infer(client, model, name, array, **more):
    types_of = {np.dtype(np.float32): "FP32", np.dtype(np.int64): "INT64"}
    one = client.module.InferInput(name, list(array.shape), types_of[array.dtype])
    one.set_data_from_numpy(array)
    return client.client.infer(model, [one], **more)


def test_it_answers_as_onnx_runtime_does(served):
    with tritonclient.http.InferenceServerClient(served.http) as one:
        client = types.SimpleNamespace(module=tritonclient.http, client=one)
        metadata = one.get_model_metadata("digits")
        given, output = metadata["inputs"][0]["name"], metadata["outputs"][0]["name"]
        assert metadata["platform"] == "openvino"
        assert metadata["inputs"] == one.get_model_metadata("digits-onnx")["inputs"]
        shape = [max(dim, 1) for dim in metadata["inputs"][0]["shape"][1:]]
        for items in (1, 3, 8, 2):
            pictures = np.random.default_rng(items).random((items, *shape), np.float32)
            answers = [infer(client, model, given, pictures).as_numpy(output) for model in ("digits", "digits-onnx")]
            np.testing.assert_allclose(*answers, rtol=1e-4, atol=1e-4)


def test_it_batches_and_has_a_profile(served):
    with tritonclient.http.InferenceServerClient(served.http) as one:
        configuration = one.get_model_config("scaled")
        assert configuration["backend"] == "openvino" and configuration["max_batch_size"] > 1
        many = [one.async_infer("scaled", [x]) for x in inputs(16)]
        for i, answer in enumerate(many):
            np.testing.assert_allclose(answer.get_result().as_numpy("y"), np.full((1, 4), 2 * i + 1))


def inputs(count):
    for i in range(count):
        x = tritonclient.http.InferInput("x", [1, 4], "FP32")
        x.set_data_from_numpy(np.full((1, 4), i, np.float32))
        yield x


def test_a_deadline_that_cannot_be_kept_is_refused(client):
    with pytest.raises(InferenceServerException, match="deadline|budget"):
        infer(client, "digits", first_input(client), pictures(client), timeout=1)


def first_input(client):
    metadata = client.client.get_model_metadata("digits", **as_json(client))
    return metadata["inputs"][0]["name"]


def pictures(client):
    shape = client.client.get_model_metadata("digits", **as_json(client))["inputs"][0]["shape"]
    return np.zeros([max(int(dim), 1) for dim in shape], np.float32)


def as_json(client):
    return {"as_json": True} if client.module is tritonclient.grpc else {}


def test_tensors_without_names_are_counted(client):
    answer = infer(client, "nameless", "input_0", np.ones((2, 4), np.float32))
    np.testing.assert_allclose(answer.as_numpy("output_0"), np.full((2, 4), 3))


def test_what_does_not_fit_is_refused(client):
    with pytest.raises(InferenceServerException, match=r"shape is \[1,5\], expected \[-1,4\]"):
        infer(client, "scaled", "x", np.ones((1, 5), np.float32))


def test_a_run_that_does_not_end_is_stopped_and_others_go_on(served):
    if served.isolation == "thread":
        pytest.skip("on a thread a run of OpenVINO cannot be stopped, and keeps it")
    with tritonclient.grpc.InferenceServerClient(served.grpc) as one:
        client = types.SimpleNamespace(module=tritonclient.grpc, client=one)
        assert infer(client, "counted", "times", np.array([5])).as_numpy("sum") == 5
        with pytest.raises(InferenceServerException, match="stopped"):
            infer(client, "counted", "times", np.array([2**31 - 1]))
        assert infer(client, "counted", "times", np.array([7])).as_numpy("sum") == 7


def test_what_is_wrong_with_a_file_is_in_the_index(served):
    with tritonclient.http.InferenceServerClient(served.http) as one:
        rows = {row["name"]: row for row in one.get_model_repository_index()}
    assert rows["scaled"]["state"] == "READY"
    assert "broken/1/model.xml" in rows["broken"]["reason"]
    assert "model.bin: no such file, expected the weights of model.xml there" in rows["without-weights"]["reason"]


def test_check_names_it_and_profile_measures_it(models, tmp_path):
    small = tmp_path / "models"
    small.mkdir()
    shutil.copytree(models / "scaled", small / "scaled")
    file = tmp_path / "fermata.yaml"
    file.write_text(config().format(models=small))
    done = subprocess.run([FERMATA, "check", file], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "scaled" in done.stdout + done.stderr, done
    done = subprocess.run([FERMATA, "profile", small / "scaled", "--openvino", OPENVINO], capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert {"1", "2", "4"} <= set(json.loads(done.stdout)["batches"]), done.stdout


def test_without_the_library_it_is_said_what_to_install(tmp_path):
    folder = tmp_path / "models" / "m" / "1"
    folder.mkdir(parents=True)
    (folder / "model.xml").write_text("<?xml version='1.0'?><net/>")
    (folder / "model.bin").write_bytes(b"")
    file = tmp_path / "fermata.yaml"
    file.write_text(config(library=tmp_path).format(models=tmp_path / "models"))
    done = subprocess.run([FERMATA, "check", file], capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert f"workers.openvino is '{tmp_path}', which has no libopenvino_c.so" in done.stdout + done.stderr
    assert "pip install openvino" in done.stdout + done.stderr
