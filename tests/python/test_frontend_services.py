"""Services that are made of several, over frontends: answers are those of one process, and no tensor passes the scheduler."""

import concurrent.futures
import io
import json
import re
import shutil
import time
import urllib.error
import urllib.request

import numpy
import pytest
import tritonclient.grpc
import tritonclient.http
import tritonclient.utils
from onnx import TensorProto, helper
from parts import CONFIG, LIMIT_S, QUIET_MS, Parts
from PIL import Image
from test_ensembles import MANY
from test_ensembles import REAL as ENSEMBLES
from test_ensembles import folder as fitted  # noqa: F401
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


class Both:
    """A frontend with a scheduler and a worker, and one server, of the same models and services."""

    def __init__(self, folder, services, head="", worker=True):
        (folder / "one").mkdir()
        text = (f"models: {folder / 'repository'}\nlisten: {{http: 0, grpc: 0, metrics: 0}}\nworkers: {{count: 1}}\n"
                + head + services)
        for name in folder.iterdir():  # what services name beside the configuration
            if name.is_dir() and name.name not in ("one", "models", "repository") or name.suffix == ".npy":
                (folder / "one" / name.name).symlink_to(name)
        self.one = Server(folder / "one", "", text.replace("{", "{{").replace("}", "}}"))
        self.parts = Parts(folder)
        text = CONFIG.format(models=folder / "repository", silence_ms=QUIET_MS, more="")
        self.parts.config.write_text(text.replace("  executor: paced\n", "") + head + services)
        self.scheduler = self.parts.scheduler()
        self.frontend = self.parts.frontend(self.scheduler)
        if worker:
            self.bring_worker()

    def bring_worker(self):
        self.parts.worker(self.scheduler)
        self.scheduler.await_metric(2, "fermata_worker_serving")
        self.frontend.await_ready()

    def await_known(self, model):
        """By the frontend, which is ready only when there are workers."""
        end = time.monotonic() + LIMIT_S
        while True:
            try:
                return urllib.request.urlopen(f"http://{self.frontend.http}/v2/models/{model}", timeout=LIMIT_S).close()
            except urllib.error.HTTPError as error:
                assert time.monotonic() < end, error.read()

    def check_no_tensor_passed(self):
        assert self.scheduler.metric("fermata_frontend_requests_total", frontend="frontend") > 0
        assert self.scheduler.metric("fermata_frontend_tensor_bytes_total") == 0
        assert self.scheduler.metric("fermata_host_tensor_bytes_total") == 0

    def end(self):
        self.parts.kill()
        self.one.stop()


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("services")
    write_repository(folder / "repository")
    write_model(folder / "repository", "bright",
                [helper.make_node("ReduceMean", ["pixels"], ["means"], axes=[2, 3], keepdims=0)],
                [("pixels", TensorProto.FLOAT, [3, 8, 8])], [("means", TensorProto.FLOAT, [3])])
    made = Both(folder, services())
    yield made
    made.end()


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


def stages_of(why):
    return [row["stage"] for row in json.loads(why["stages"])]


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
    first, second = ask(both.one, service, inputs)
    own_first, own_second = ask(both.frontend, service, inputs)
    assert own_first == first
    if isinstance(first, int):
        assert own_second == second
    else:
        assert stages_of(own_second) == stages_of(second)
    both.check_no_tensor_passed()


def test_services_inside_of_services_are_asked_for_by_the_frontend(both):
    outputs, why = ask(both.frontend, "nested", {"x": [[1, 2]]}, timeout_us=60_000_000)
    assert outputs["y"] in ([[5, 7]], [[8, 12]])
    inside, last = json.loads(why["stages"])
    assert [row["stage"] for row in inside["stages"]] == ["first", "second"]
    assert last["variant"] in ("plus", "twice")
    assert both.scheduler.metric("fermata_requests_total", service="nested/last", outcome="on_time") >= 1


def test_operators_run_at_the_frontend(both):
    replies = []
    for server in (both.one, both.frontend):
        picture = io.BytesIO()
        Image.fromarray(numpy.tile(numpy.uint8([10, 200, 30]), (20, 30, 1))).save(picture, "png")
        image = tritonclient.http.InferInput("encoded", [1], "BYTES")
        image.set_data_from_numpy(numpy.array([picture.getvalue()], object))
        with tritonclient.http.InferenceServerClient(server.http) as client:
            reply = client.infer("pictures", [image])
        replies.append((reply.as_numpy("means").tolist(), reply.as_numpy("class").tolist()))
    assert replies[0] == replies[1] and numpy.ravel(replies[0][1])[0] == 1
    assert both.frontend.metric("fermata_requests_total", service="pictures/decode", outcome="on_time") == 1
    assert both.scheduler.metric("fermata_requests_total", service="pictures/decode") == 0


def test_what_cannot_be_in_time_is_rejected_before_it_runs(both):
    code, text = ask(both.frontend, "chain", {"x": [[1, 2]]}, timeout_us=1)
    assert code == 504 and "the stages that have not run are expected to" in text


def test_stages_are_no_services_of_clients(both):
    code, text = ask(both.frontend, "chain/first", {"x": [[1, 2]]})
    assert code == 404
    with both.frontend.client("grpc") as client, pytest.raises(tritonclient.utils.InferenceServerException, match="unknown model"):
        client.get_model_metadata("chain/first")
    x = tritonclient.grpc.InferInput("x", [1, 2], "FP32")
    x.set_data_from_numpy(numpy.ones((1, 2), numpy.float32))
    with both.frontend.client("grpc") as client, pytest.raises(tritonclient.utils.InferenceServerException, match="unknown model"):
        client.infer("chain/first", [x])


def test_clients_see_one_model(both):
    def seen(server, path):
        with urllib.request.urlopen(f"http://{server.http}/v2/models/{path}") as reply:
            return json.load(reply)
    for path in ("diamond", "diamond/config", "found", "found/config", "pictures", "nested/config"):
        assert seen(both.frontend, path) == seen(both.one, path)


EVIDENCE = """
services:
  seen:
    kind: variants
    variants: [plus, twice]
    slo_ms: 60000
    evidence: {features: features.npy, labels: labels.npy, k: 5}
"""


def profile(name, recall):
    times = {"runs": 1, "p50_ms": 1, "p90_ms": 1, "p99_ms": 1, "mean_ms": 1}
    return {"format": 1, "version": 1, "model": name, "model_version": "1", "batches": {"1": times, "4": times},
            "linear_ms": {"alpha": 0, "beta": 1, "error": 0}, "quadratic_ms": {"a": 0, "b": 0, "c": 1, "error": 0},
            "accuracy": 0.7, "recall": recall}


# It is found while the requests wait for a worker.
def test_evidence_is_found_by_the_frontend(tmp_path):
    write_repository(tmp_path / "repository")
    for name, recall in (("plus", [0.95, 0.45]), ("twice", [0.45, 0.95])):
        (tmp_path / "repository" / name / "profile.json").write_text(json.dumps(profile(name, recall)))
    labels = numpy.arange(40) % 2
    numpy.save(tmp_path / "labels.npy", labels)
    numpy.save(tmp_path / "features.npy", numpy.stack([labels, labels], 1).astype(numpy.float32))
    made = Both(tmp_path, EVIDENCE, worker=False)
    try:
        made.await_known("seen")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            asked = [pool.submit(ask, made.frontend, "seen", {"x": x}) for x in ([[0, 0]], [[1, 1]], [[1, 1], [0, 0]])]
            made.scheduler.await_metric(3, "nv_inference_pending_request_count", model="seen")
            made.bring_worker()
            replies = [each.result() for each in asked]
        assert replies[0][0]["y"] == [[1, 1]] and replies[0][1]["variant"] == "plus"
        assert replies[1][0]["y"] == [[2, 2]] and replies[1][1]["variant"] == "twice"
        assert json.loads(replies[1][1]["posterior"]) == pytest.approx([0.5 / 6, 5.5 / 6])
        assert replies[2][0]["y"] == [[2, 2], [1, 1]]
        made.check_no_tensor_passed()
    finally:
        made.end()


def ensembles(*names, more=""):
    """Those of the tests of ensembles, as far as no other model runs for them."""
    text = ENSEMBLES[ENSEMBLES.index("services:"):].replace("{{", "{").replace("}}", "}").replace(", predictor: score", "")
    rows = {name: re.search(rf"(?ms)^  {name}: .*?\}}\n", text).group() for name in names}
    return "services:\n" + "".join(rows.values()) + more


def both_of(folder, fitted, services):  # noqa: F811
    (folder / "repository").symlink_to(fitted / "models")
    for profile in fitted.iterdir():
        if profile.is_dir() and profile.name != "models":
            (folder / profile.name).symlink_to(profile)
    return Both(folder, services)


@pytest.fixture(scope="module")
def together(fitted, tmp_path_factory):  # noqa: F811
    """There is time for every base model."""
    holder = """\
  holder: {kind: pipeline, stages: [{name: only, model: base-log}]}
  through: {kind: ensemble, models: [{service: holder}, base-table], slo_ms: 60000, profile: through}
"""
    folder = tmp_path_factory.mktemp("together")
    shutil.copytree(fitted / "fragile", folder / "through")
    profile = folder / "through" / "profile.json"
    profile.write_text(profile.read_text().replace("base-log", "holder"))
    made = both_of(folder, fitted, ensembles("average", "weighted", "vote", "fragile", "brittle", more=holder))
    yield made
    made.end()


WEIGHTS = {"base-plain": 1, "base-log": 2, "base-table": 5}


def together_of(one, service, members, row):
    """What an ensemble makes of these base models' answers for one item."""
    answers = numpy.array([ask(one, member, {"x": [row]})[0]["y"][0] for member in members])
    if service == "vote":
        answers = numpy.eye(2)[answers.argmax(axis=1)]
    weights = [WEIGHTS[member] for member in members] if service == "weighted" else None
    return numpy.average(answers, axis=0, weights=weights)


@pytest.mark.parametrize("service", ["average", "weighted", "vote"])
@pytest.mark.parametrize("x, failing", [([1, 2], []), ([2.7, 2.2], []), ([-2, 3], ["base-log"]), ([20, 3], ["base-table"]),
                                        ([-20, 3], ["base-log", "base-table"])])
def test_answers_of_ensembles_are_of_the_base_models_that_are_said(together, service, x, failing):
    """Outputs and the scheduler's word come different ways; what is no number the scheduler hears of, and asks others."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        replies = [pool.submit(ask, together.frontend, service, {"x": [x]}) for _ in range(30)]
    expected = {}
    for outputs, why in (reply.result() for reply in replies):
        members = why["variant"]
        assert not set(members.split("+")) & set(failing)
        if members not in expected:
            expected[members] = together_of(together.one, service, members.split("+"), x)
        assert outputs["y"][0] == pytest.approx(expected[members], rel=1e-5)
    together.check_no_tensor_passed()


def test_each_item_of_an_ensembles_request_is_a_query_of_its_own(together):
    every = [["base-plain"], ["base-log"], ["base-table"], ["base-plain", "base-log"], ["base-plain", "base-table"],
             ["base-log", "base-table"], ["base-plain", "base-log", "base-table"]]
    possible = [[together_of(together.one, "weighted", members, row) for members in every] for row in MANY]
    for _ in range(20):
        outputs, _ = ask(together.frontend, "weighted", {"x": MANY})
        for row, own in zip(outputs["y"], possible, strict=True):
            assert any(row == pytest.approx(each, rel=1e-5) for each in own)


@pytest.mark.parametrize("service, x", [("fragile", [-20, 3]), ("brittle", [20, 3]), ("through", [2, 3]), ("through", [-2, 3])])
def test_ensembles_that_fail_and_members_that_are_services(together, service, x):
    first, second = ask(together.one, service, {"x": [x]})
    own_first, own_second = ask(together.frontend, service, {"x": [x]})
    assert own_first == first
    if isinstance(first, int):
        assert own_second == second
    together.check_no_tensor_passed()
