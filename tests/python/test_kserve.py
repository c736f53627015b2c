"""deploy/kserve: the server is started with the very arguments of the document, on folders as KServe's storage
initializer leaves them."""

import shutil
import subprocess

import pytest
import tritonclient.grpc
import tritonclient.http
import yaml
from conftest import FERMATA, ROOT, START_LIMIT_S, ZOO, Server
from tensors import digits, tensor

RUNTIME = ROOT / "deploy/kserve/clusterservingruntime.yaml"
MODEL = ZOO / "repository/digits-cnn-small/1/model.onnx"
NAME = "digits"


def as_is(model, folder):
    shutil.copy(model, folder / "model.onnx")


def of_another_name(model, folder):
    shutil.copy(model, folder / "digits-v7.onnx")


def by_version(model, folder):
    (folder / "1").mkdir()
    shutil.copy(model, folder / "1/model.onnx")


def with_configuration(model, folder):
    by_version(model, folder)
    (folder / "config.pbtxt").write_text('max_batch_size: 16\n')


def repository(model, folder):
    (folder / NAME / "1").mkdir(parents=True)
    shutil.copy(model, folder / NAME / "1/model.onnx")


class Pod(Server):
    """The runtime's container, on free ports."""

    def __init__(self, folder, models):
        self.models = models
        super().__init__(folder, models)

    def start(self, _command, **more):
        (container,) = yaml.safe_load(RUNTIME.read_text())["spec"]["containers"]
        replaced = {"--models=/mnt/models": f"--models={self.models}", "--model-name={{.Name}}": f"--model-name={NAME}",
                    "--host=0.0.0.0": "--host=127.0.0.1", "--drain-delay=5": "--drain-delay=0"}
        arguments = [replaced.pop(each, each) for each in container["args"]]
        assert not replaced
        ports = {"--http-port=8080", "--grpc-port=9000", "--metrics-port=8002"}
        assert ports <= set(arguments)
        return subprocess.Popen([FERMATA, *[each.split("=")[0] + "=0" if each in ports else each for each in arguments]], **more)


@pytest.mark.parametrize("layout", [as_is, of_another_name, by_version, with_configuration, repository])
def test_what_the_storage_initializer_leaves_is_served(layout, tmp_path):
    models = tmp_path / "mnt"
    models.mkdir()
    layout(MODEL, models)
    server = Pod(tmp_path, models)
    for module, address in ((tritonclient.http, server.http), (tritonclient.grpc, server.grpc)):
        with module.InferenceServerClient(address) as client:
            assert client.is_server_ready() and client.is_model_ready(NAME)
            answer = client.infer(NAME, [tensor(module, "image", digits(2))])
            assert len(answer.as_numpy("label")) == 2
    assert server.stop() == 0, server.log.read_text()


def test_two_files_that_could_be_the_model_are_an_error(tmp_path):
    for name in ("a.onnx", "b.onnx"):
        shutil.copy(MODEL, tmp_path / name)
    ended = subprocess.run([FERMATA, "serve", "--models", tmp_path, "--model-name", NAME, "--http-port", "0", "--grpc-port", "0",
                            "--metrics-port", "0"], capture_output=True, text=True, timeout=START_LIMIT_S)
    assert ended.returncode == 2
    assert "a.onnx and b.onnx could both be the model, expected one file" in ended.stderr


def test_the_runtime_runs_without_privileges():
    spec = yaml.safe_load(RUNTIME.read_text())["spec"]
    (container,) = spec["containers"]
    security = container["securityContext"]
    assert security["runAsNonRoot"] and security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert {each["name"] for each in spec["supportedModelFormats"]} == {"onnx", "triton", "openvino"}
