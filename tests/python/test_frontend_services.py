"""Services that are made of several, over frontends: answers are those of one process, and no tensor passes the scheduler."""

import io
import json
import re
import urllib.error
import urllib.request

import numpy
import pytest
import tritonclient.http
from onnx import TensorProto, helper
from parts import CONFIG, LIMIT_S, QUIET_MS, Parts
from PIL import Image
from test_pipelines import CONFIG as PIPELINES
from test_pipelines import write_model, write_repository

from conftest import Server

PICTURES = """\
  pictures:
    kind: pipeline
    stages:
      - {name: decode, operator: decode-image}
      - {name: fit, operator: resize, size: [8, 8], inputs: {image: decode.image}}
      - {name: pixels, operator: normalise, inputs: {image: fit.image}}
      - {name: bright, model: bright, inputs: {pixels: pixels.tensor}}
      - {name: most, operator: argmax, inputs: {scores: bright.means}}
    outputs: {means: bright.means, class: most.class}
  best:
    kind: pipeline
    stages:
      - {name: double, model: twice}
      - {name: pick, operator: argmax, inputs: {scores: double.y}}
      - {name: either, variants: [{model: plus, accuracy: 0.2}, {model: twice, accuracy: 0.9}], inputs: {x: double.y}}
    outputs: {class: pick.class, y: either.y}
"""


def services():
    """Those of the tests of pipelines, but the one with an adapter; and one with operators around a model."""
    text = PIPELINES[PIPELINES.index("services:"):].replace("{{", "{").replace("}}", "}")
    return re.sub(r"(?ms)^  planned:.*?(?=^  tenths:)", "", text) + PICTURES


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A frontend with a scheduler and a worker, and one server, of the same models and services."""
    folder = tmp_path_factory.mktemp("services")
    write_repository(folder / "repository")
    write_model(folder / "repository", "bright",
                [helper.make_node("ReduceMean", ["pixels"], ["means"], axes=[2, 3], keepdims=0)],
                [("pixels", TensorProto.FLOAT, [3, 8, 8])], [("means", TensorProto.FLOAT, [3])])
    (folder / "one").mkdir()
    one = Server(folder / "one", folder / "repository",
                 "models: {models}\nlisten: {{http: 0, grpc: 0, metrics: 0}}\nworkers: {{count: 1}}\n"
                 + services().replace("{", "{{").replace("}", "}}"))
    parts = Parts(folder)
    text = CONFIG.format(models=folder / "repository", silence_ms=QUIET_MS, more="")
    parts.config.write_text(text.replace("  executor: paced\n", "") + services())
    scheduler = parts.scheduler()
    frontend = parts.frontend(scheduler)
    parts.worker(scheduler)
    scheduler.await_metric(2, "fermata_worker_serving")
    frontend.await_ready()
    yield frontend, one, scheduler
    parts.kill()
    one.stop()


def ask(server, service, inputs, timeout_us=None):
    """The outputs by name and the parameters, or the code and the error."""
    body = {"parameters": {"explain": True} | ({"timeout": timeout_us} if timeout_us else {}),
            "inputs": [{"name": name, "datatype": "FP32", "shape": list(numpy.shape(values)),
                        "data": numpy.ravel(values).tolist()} for name, values in inputs.items()]}
    request = urllib.request.Request(f"http://{server.http}/v2/models/{service}/infer", json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as reply:
            answer = json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["error"]
    return {o["name"]: numpy.reshape(o["data"], o["shape"]).tolist() for o in answer["outputs"]}, answer["parameters"]


@pytest.mark.parametrize("service, inputs", [
    ("chain", {"x": [[1, 2], [3, 4], [5, 6]]}),
    ("chain", {"x": numpy.arange(34).reshape(17, 2)}),
    ("diamond", {"x": [[1, 2]]}),
    ("best", {"x": [[1, 2], [4, 3]]}),
    ("broken", {"x": [[-1, 0]]}),
    ("broken", {"x": [[6, 0]]}),
    ("tenths", {"x": [[0.1, 0.1]]}),
    ("tenths", {"x": [[5, 5]]}),
    ("found", {"image": [[0, 1, 0], [1, 0, 1]]}),
    ("found", {"image": numpy.zeros((2, 3))}),
    ("apart", {"image": numpy.ones((4, 5))}),
    ("beside", {"image": [[1, 0], [0, 1]], "other": [[1, 0], [0, 1]]}),
    ("beside", {"image": [[1, 0]], "other": [[1, 0], [0, 1]]}),
])
def test_answers_are_those_of_one_process(both, service, inputs):
    frontend, one, scheduler = both
    first, second = ask(one, service, inputs)
    own_first, own_second = ask(frontend, service, inputs)
    assert own_first == first
    if isinstance(first, int):
        assert own_second == second
    else:
        assert [row["stage"] for row in json.loads(own_second["stages"])] == [row["stage"] for row in json.loads(second["stages"])]
    assert scheduler.metric("fermata_frontend_tensor_bytes_total") == 0
    assert scheduler.metric("fermata_host_tensor_bytes_total") == 0


def test_services_inside_of_services_are_asked_for_by_the_frontend(both):
    frontend, _, scheduler = both
    outputs, why = ask(frontend, "nested", {"x": [[1, 2]]}, timeout_us=60_000_000)
    assert outputs["y"] in ([[5, 7]], [[8, 12]])
    inside, last = json.loads(why["stages"])
    assert [row["stage"] for row in inside["stages"]] == ["first", "second"]
    assert last["variant"] in ("plus", "twice")
    assert scheduler.metric("fermata_requests_total", service="nested/last", outcome="on_time") >= 1


def test_operators_run_at_the_frontend(both):
    replies = []
    for server in both[:2]:
        picture = io.BytesIO()
        Image.fromarray(numpy.tile(numpy.uint8([10, 200, 30]), (20, 30, 1))).save(picture, "png")
        image = tritonclient.http.InferInput("encoded", [1], "BYTES")
        image.set_data_from_numpy(numpy.array([picture.getvalue()], object))
        with tritonclient.http.InferenceServerClient(server.http) as client:
            reply = client.infer("pictures", [image])
        replies.append((reply.as_numpy("means").tolist(), reply.as_numpy("class").tolist()))
    assert replies[0] == replies[1] and numpy.ravel(replies[0][1])[0] == 1
    assert both[0].metric("fermata_requests_total", service="pictures/decode", outcome="on_time") == 1
    assert both[2].metric("fermata_requests_total", service="pictures/decode") == 0


def test_what_cannot_be_in_time_is_rejected_before_it_runs(both):
    code, text = ask(both[0], "chain", {"x": [[1, 2]]}, timeout_us=1)
    assert code == 504 and "the stages that are left are expected to" in text


def test_stages_are_no_services_of_clients(both):
    code, text = ask(both[0], "chain/first", {"x": [[1, 2]]})
    assert code == 404 and "unknown model" in text


def test_clients_see_one_model(both):
    def seen(server, path):
        with urllib.request.urlopen(f"http://{server.http}/v2/models/{path}") as reply:
            return json.load(reply)
    for path in ("diamond", "diamond/config", "found", "found/config", "pictures", "nested/config"):
        assert seen(both[0], path) == seen(both[1], path)
