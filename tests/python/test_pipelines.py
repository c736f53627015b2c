"""Services whose stages are services: data go through, deadlines hold, mistakes are said."""

import concurrent.futures
import json
import subprocess
import time
import urllib.error
import urllib.request

import numpy
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import FERMATA, Server
from live_decisions import is_timed, replayed

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
CHAIN = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{count: 1}}
services:
  chain:
    kind: pipeline
    slo_ms: 60000
    stages: [{{name: first, model: plus}}, {{name: second, model: twice}}]
"""
CONFIG = CHAIN + """\
  diamond:
    kind: pipeline
    stages:
      - {{name: a, model: plus}}
      - {{name: b, model: twice, after: [a]}}
      - {{name: c, model: plus, after: [a]}}
      - {{name: d, model: add, inputs: {{left: b.y, right: c.y}}}}
    outputs: {{sum: d.sum, left: b.y}}
  nested:
    kind: pipeline
    stages: [{{name: inside, service: chain}}, {{name: last, service: chosen, inputs: {{x: inside.y}}}}]
  chosen: {{kind: variants, variants: [plus, twice], penalty: step}}
  broken: {{kind: pipeline, stages: [{{name: one, model: plus}}, {{name: two, model: fails}}]}}
  planned:
    kind: pipeline
    slo_ms: 60000
    adapter: {{interval_s: 1, alpha: 1000}}
    stages:
      - {{name: a, model: plus}}
      - name: b
        variants: [{{model: plus, accuracy: 0.5}}, {{model: twice, accuracy: 0.9}}]
        when: {{output: a.y, element: max, above: 3}}
    outputs: {{y: [b.y, a.y]}}
  tenths:
    kind: pipeline
    stages:
      - {{name: a, model: plus}}
      - {{name: b, model: twice, when: {{output: a.y, element: any, among: [1.1, 7]}}}}
    outputs: {{y: [b.y, a.y]}}
  found:
    kind: pipeline
    stages:
      - {{name: find, model: find, fan_out: found}}
      - {{name: each, model: plus, inputs: {{x: find.found}}}}
    outputs: {{places: find.found, y: each.y}}
  beside:
    kind: pipeline
    stages:
      - {{name: find, model: find, fan_out: found}}
      - {{name: other, model: find, inputs: {{image: other}}, fan_out: found}}
      - {{name: pair, model: pair, inputs: {{left: find.found, right: other.found}}}}
  apart:
    kind: pipeline
    queue_limit: 2
    stages:
      - {{name: find, model: find, fan_out: found}}
      - {{name: each, model: alone, inputs: {{x: find.found}}}}
    outputs: {{y: each.y}}
"""


def write_model(folder, name, nodes, inputs, outputs, max_batch=4, extra=()):
    at = folder / name
    (at / "1").mkdir(parents=True)
    lead = ["batch"] if max_batch else []
    infos = [[helper.make_tensor_value_info(n, t, lead + dims) for n, t, dims in side]
             for side in (inputs, outputs)]
    graph = helper.make_graph(nodes, name, *infos, initializer=list(extra))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, at / "1" / "model.onnx")
    (at / "config.pbtxt").write_text(f"max_batch_size: {max_batch}\n")


def constant(name, value):
    return helper.make_tensor(name, FLOAT, [], [value])


def write_repository(folder):
    x, y = ("x", FLOAT, [2]), ("y", FLOAT, [2])
    write_model(folder, "plus", [helper.make_node("Add", ["x", "one"], ["y"])], [x], [y],
                extra=[constant("one", 1)])
    write_model(folder, "alone", [helper.make_node("Add", ["x", "one"], ["y"])], [x], [y], max_batch=0,
                extra=[constant("one", 1)])
    write_model(folder, "twice", [helper.make_node("Mul", ["x", "two"], ["y"])], [x], [y],
                extra=[constant("two", 2)])
    write_model(folder, "add", [helper.make_node("Add", ["left", "right"], ["sum"])],
                [("left", FLOAT, [2]), ("right", FLOAT, [2])], [("sum", FLOAT, [2])])
    write_model(folder, "pair", [helper.make_node("Add", ["left", "right"], ["sum"])],
                [("left", FLOAT, [2]), ("right", FLOAT, [2])], [("sum", FLOAT, [2])], max_batch=0)
    # Fails where an index is out of range, which 7 is.
    write_model(folder, "fails",
                [helper.make_node("Cast", ["x"], ["index"], to=INT64),
                 helper.make_node("GatherElements", ["x", "index"], ["y"], axis=1)], [x], [y])
    # Where a picture is bright: as many rows as there are such places.
    write_model(folder, "find",
                [helper.make_node("Greater", ["image", "zero"], ["bright"]),
                 helper.make_node("NonZero", ["bright"], ["places"]),
                 helper.make_node("Transpose", ["places"], ["rows"]),
                 helper.make_node("Cast", ["rows"], ["found"], to=FLOAT)],
                [("image", FLOAT, ["h", "w"])], [("found", FLOAT, ["k", 2])], max_batch=0,
                extra=[constant("zero", 0)])


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pipelines")
    write_repository(folder / "models")
    server = Server(folder, folder / "models", CONFIG)
    yield server
    assert server.stop() == 0, server.log.read_text()


def ask(server, service, values, name="x", timeout_us=None):
    parameters = {"explain": True} | ({"timeout": timeout_us} if timeout_us else {})
    values = numpy.asarray(values, numpy.float32)
    body = {"parameters": parameters,
            "inputs": [{"name": name, "datatype": "FP32", "shape": list(values.shape),
                        "data": values.ravel().tolist()}]}
    request = urllib.request.Request(f"http://{server.http}/v2/models/{service}/infer",
                                     json.dumps(body).encode())
    with urllib.request.urlopen(request) as reply:
        answer = json.load(reply)
    outputs = {o["name"]: numpy.reshape(o["data"], o["shape"]) for o in answer["outputs"]}
    return outputs, answer["parameters"]


def unanswered(server, *args, **kwargs):
    with pytest.raises(urllib.error.HTTPError) as error:
        ask(server, *args, **kwargs)
    return error.value.code, json.load(error.value)


def refused(server, *args, **kwargs):
    code, body = unanswered(server, *args, **kwargs)
    return code, body["error"]


def metadata(server, service):
    with urllib.request.urlopen(f"http://{server.http}/v2/models/{service}") as reply:
        return json.load(reply)


def test_a_stage_reads_what_the_one_before_it_gives(pipelines):
    outputs, _ = ask(pipelines, "chain", [[1, 2], [3, 4], [5, 6]])
    assert outputs["y"].tolist() == [[4, 6], [8, 10], [12, 14]]


def test_more_items_than_a_batch_holds_are_joined_between_stages(pipelines):
    values = numpy.arange(34).reshape(17, 2)
    outputs, _ = ask(pipelines, "chain", values)
    assert (outputs["y"] == (values + 1) * 2).all()


def test_stages_may_fork_and_join(pipelines):
    outputs, _ = ask(pipelines, "diamond", [[1, 2]])
    assert outputs["left"].tolist() == [[4, 6]]
    assert outputs["sum"].tolist() == [[7, 10]]  # 2 (x + 1) + (x + 1) + 1


def test_explain_shows_every_stage_and_those_inside(pipelines):
    outputs, why = ask(pipelines, "nested", [[1, 2]], timeout_us=30_000_000)
    assert outputs["y"].tolist() in ([[5, 7]], [[8, 12]])
    inside, last = json.loads(why["stages"])
    assert [row["stage"] for row in inside["stages"]] == ["first", "second"]
    assert last["variant"] in ("plus", "twice") and last["reason"]
    for row in (inside, last, *inside["stages"]):
        assert row["wait_ms"] >= 0 and row["run_ms"] >= 0 and row["budget_ms"] > 0
    assert inside["remaining_ms"] > last["remaining_ms"] > 0
    assert inside["start_ms"] <= last["start_ms"]


def test_what_cannot_be_in_time_is_rejected_before_it_runs(pipelines):
    code, text = refused(pipelines, "chain", [[1, 2]], timeout_us=1)
    assert code == 504 and "the stages that have not run are expected to" in text


def test_a_stage_that_fails_is_named(pipelines):
    outputs, _ = ask(pipelines, "broken", [[-1, 0]])
    assert outputs["y"].tolist() == [[0, 1]]
    code, text = refused(pipelines, "broken", [[6, 0]])
    assert code == 400 and text.startswith("stage 'two': ")  # it ran before: the input is at fault


def test_each_item_that_a_stage_makes_goes_on_and_none_is_an_answer(pipelines):
    outputs, why = ask(pipelines, "found", [[0, 1, 0], [1, 0, 1]], name="image")
    assert outputs["places"].tolist() == [[0, 1], [1, 0], [1, 2]]
    assert outputs["y"].tolist() == [[1, 2], [2, 1], [2, 3]]
    assert [row["items"] for row in json.loads(why["stages"])] == [1, 3]
    outputs, why = ask(pipelines, "found", numpy.zeros((2, 3)), name="image")
    assert outputs["y"].shape == (0, 2)
    assert [row["made"] for row in json.loads(why["stages"])] == [0]


# Its items are requests of their own, which no queue limit of whole requests may reject.
def test_more_items_run_apart_than_requests_may_wait(pipelines):
    outputs, _ = ask(pipelines, "apart", numpy.ones((4, 5)), "image")
    assert outputs["y"].shape == (20, 2) and outputs["y"][-1].tolist() == [4, 5]


def test_clients_see_one_model(pipelines):
    seen = metadata(pipelines, "diamond")
    assert [i["name"] for i in seen["inputs"]] == ["x"]
    assert [(o["name"], o["shape"]) for o in seen["outputs"]] == [("sum", [-1, 2]), ("left", [-1, 2])]
    seen = metadata(pipelines, "found")  # its first stage makes the items
    assert [(i["name"], i["shape"]) for i in seen["inputs"]] == [("image", [-1, -1])]
    assert [(o["name"], o["shape"]) for o in seen["outputs"]] == [("places", [-1, 2]), ("y", [-1, 2])]
    for service, most, dims in (("diamond", 4, [[2], [2]]), ("found", 0, [[-1, 2], [-1, 2]])):
        config = metadata(pipelines, f"{service}/config")
        assert config["max_batch_size"] == most
        assert [o["name"] for o in config["output"]] == [o["name"] for o in metadata(pipelines, service)["outputs"]]
        assert [[int(d) for d in o["dims"]] for o in config["output"]] == dims


def test_many_at_once_are_all_answered(pipelines):
    def one(i):
        outputs, _ = ask(pipelines, "diamond", [[i, i]])
        return outputs["sum"][0, 0] == 3 * (i + 1) + 1
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert all(pool.map(one, range(200)))


def test_a_stage_that_is_not_wanted_is_skipped(pipelines):
    outputs, explained = ask(pipelines, "planned", [[1, 2]])
    assert outputs["y"].tolist() == [[2, 3]]
    stages = explained["stages"]
    assert len(json.loads(stages) if isinstance(stages, str) else stages) == 1


def test_an_adapter_decides_and_its_decisions_replay(pipelines):
    decisions = []
    limit = time.monotonic() + 60
    while not decisions and time.monotonic() < limit:
        ask(pipelines, "planned", [[5, 5]])
        with urllib.request.urlopen(f"http://{pipelines.http}/v2/fermata/decisions") as reply:
            decisions = json.load(reply)["pipelines"]
    decision = decisions[0]
    done = subprocess.run([FERMATA, "plan", "pipeline", "-"], input=json.dumps(decision["problem"]),
                          capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == decision["answer"]
    assert is_timed(replayed(pipelines)["pipeline"])
    assert [stage["variant"] for stage in decision["answer"]["stages"]] == ["a", "twice"]
    outputs, _ = ask(pipelines, "planned", [[5, 5]])
    assert outputs["y"].tolist() == [[12, 12]]
    with urllib.request.urlopen(f"http://{pipelines.metrics}/metrics") as reply:
        text = reply.read().decode()
    assert 'fermata_pipeline_replicas{service="planned",stage="b",variant="twice"}' in text


def ask_two(server, image, other):
    inputs = [{"name": name, "datatype": "FP32", "shape": list(numpy.shape(values)),
               "data": numpy.ravel(values).tolist()} for name, values in (("image", image), ("other", other))]
    request = urllib.request.Request(f"http://{server.http}/v2/models/beside/infer",
                                     json.dumps({"inputs": inputs}).encode())
    with urllib.request.urlopen(request) as reply:
        return {o["name"]: numpy.reshape(o["data"], o["shape"]).tolist() for o in json.load(reply)["outputs"]}


def test_a_stage_that_runs_items_apart_wants_a_row_of_each_input_for_each(pipelines):
    one, two, three = [[1, 0]], [[1, 0], [0, 1]], [[1, 1], [0, 1]]  # how many places are bright
    assert ask_two(pipelines, two, two)["sum"] == [[0, 0], [2, 2]]
    for image, other in ((one, two), (two, one), (two, three), (three, two)):
        with pytest.raises(urllib.error.HTTPError) as error:
            ask_two(pipelines, image, other)
        text = json.load(error.value)["error"]
        assert error.value.code == 500 and "stage 'pair'" in text and "one an item" in text


@pytest.mark.parametrize("x, y", [(0.1, 2.2), (6, 14), (5, 6)])
def test_a_condition_names_fractions_and_integers(pipelines, x, y):
    outputs, _ = ask(pipelines, "tenths", [[x, x]])
    assert outputs["y"].tolist() == [pytest.approx([y, y])]


def test_a_member_that_is_unloaded_takes_the_pipeline_along_and_back(pipelines):
    def repository(what):
        request = urllib.request.Request(
            f"http://{pipelines.http}/v2/repository/models/twice/{what}", b"{}")
        with urllib.request.urlopen(request):
            pass
    repository("unload")
    try:
        code, text = refused(pipelines, "chain", [[1, 2]])
        assert code == 503 and "stage 'second'" in text
    finally:
        repository("load")
    outputs, _ = ask(pipelines, "chain", [[1, 2]])
    assert outputs["y"].tolist() == [[4, 6]]


@pytest.mark.parametrize("services, said", [
    ("p: {kind: pipeline, stages: [{name: a, service: p}]}", "contains itself"),
    ("p: {kind: pipeline, stages: [{name: a, service: q}]}\n"
     "  q: {kind: pipeline, stages: [{name: a, service: p}]}", "contains itself"),
    ("p: {kind: pipeline, stages: [{name: a, model: plus, after: [b]},"
     " {name: b, model: plus, after: [a]}]}", "comes after itself"),
    ("p: {kind: pipeline, stages: [{name: a, model: nothing}]}", "no service and no model"),
    ("p: {kind: pipeline, stages: [{name: a, model: plus}, {name: b, model: find}]}",
     "input 'image' of stage 'b'"),
    ("p: {kind: pipeline, stages: [{name: a, model: plus}, {name: b, model: add}]}",
     "does not say in `inputs` where 'left' comes from"),
    ("p: {kind: pipeline, stages: [{name: a, model: plus, fan_out: z}]}", "no output 'z'"),
    ("p: {kind: pipeline, stages: [{name: a, model: plus}], outputs: {o: a.z}}", "no output 'z'"),
    ("p: {kind: pipeline, stages: [{name: a, model: plus}], outputs: {o: x}}", "STAGE.TENSOR"),
    ("p: {kind: pipeline, stages: [{name: a}]}", "one of service, model, variants and operator"),
    ("p: {kind: pipeline, stages: [{name: a, model: plus}, {name: b, model: plus,"
     " when: {output: a.y, above: 1, below: 2}}]}", "one of above, below and among"),
    ("p: {kind: pipeline, stages: [{name: a, model: plus}, {name: b, model: plus,"
     " when: {output: a.y, below: 0.9}}]}", "expected `element` with one of max, min, argmax, any"),
    ("p: {kind: pipeline, stages: [{name: a, model: plus}, {name: b, model: plus,"
     " when: {output: a.y, element: 2, below: 0.9}}]}", "have 2 elements"),
    ("p: {kind: pipeline, stages: [{name: a, model: plus}, {name: b, model: plus,"
     " when: {output: a.y, element: most, below: 0.9}}]}", "max, min, argmax, any"),
    ("p: {kind: pipeline, stages: [{name: a, model: plus}, {name: b, model: plus,"
     " when: {output: x, above: 1}}]}", "runs when 'x'"),
    ("p: {kind: pipeline, stages: [{name: a, variants: [plus, plus]}]}", "not listed yet"),
    ("p: {kind: pipeline, adapter: {model: load.onnx}, stages: [{name: a, model: plus}]}",
     "but for forecast: model"),
])
def test_mistakes_are_said_when_the_server_starts(tmp_path, pipelines, services, said):
    models = pipelines.log.parent / "models"
    config = tmp_path / "fermata.yaml"
    config.write_text(CONFIG.format(models=models).split("services:")[0] + "services:\n  " + services)
    done = subprocess.run([FERMATA, "serve", "--config", config], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode != 0 and said in done.stderr, done.stderr
