"""Whether a model batches is tried, not assumed: models of public kinds whose first dimension counts items, or does not."""

import json
import subprocess
import urllib.request

import numpy as np
import pytest
import tritonclient.http
from conftest import FERMATA, START_LIMIT_S, Server
from row_models import APART, DECLARED, MODELS, SLIGHTLY, TOGETHER, UNTRIED, N, embedded, made, nh, one, quantised, value, write

CONFIG = "models: {models}\nlisten: {{http: 0, grpc: 0, metrics: 0}}\nworkers: {{count: 1}}\n"
SAYS = {SLIGHTLY: "depend slightly", TOGETHER: "depend on each other", UNTRIED: "could not be tried",
        DECLARED: "first dimension is not free"}
DEFAULT_MAX_BATCH = 64


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    for name, (_, make) in MODELS.items():
        write(folder / "models" / name, make())
    for name, make in OTHERS.items():
        write(folder / "models" / name, *make())
    server = Server(folder, folder / "models", CONFIG)
    with tritonclient.http.InferenceServerClient(server.http) as client:
        client.metrics = lambda: urllib.request.urlopen(f"http://{server.metrics}/metrics").read().decode()
        client.log = [json.loads(line)["message"] for line in server.log.read_text().splitlines()]
        yield client
    assert server.stop() == 0


def check(folder):
    (folder / "fermata.yaml").write_text(CONFIG.format(models=folder / "models"))
    done = subprocess.run([FERMATA, "check", folder / "fermata.yaml"], capture_output=True, text=True,
                          timeout=START_LIMIT_S)
    return done.returncode, done.stderr


@pytest.mark.parametrize("name", MODELS)
def test_a_model_batches_where_its_rows_are_apart(served, name):
    kind, _ = MODELS[name]
    size = served.get_model_config(name).get("max_batch_size", 0)
    assert size == (DEFAULT_MAX_BATCH if kind == APART else 0)
    said = [line for line in served.log if line.startswith(f"model '{name}': ")]
    if kind == APART:
        assert said == []
    else:
        assert len(said) == 1 and "does not batch" in said[0] and SAYS[kind] in said[0]


def test_a_request_for_rows_that_depend_on_each_other_is_answered_whole(served):
    rows = np.random.default_rng(1).standard_normal((100, 4)).astype(np.float32)
    tensor = tritonclient.http.InferInput("x", rows.shape, "FP32")
    tensor.set_data_from_numpy(rows)
    answer = served.infer("cumsum-first", [tensor]).as_numpy("y")
    np.testing.assert_allclose(answer, np.cumsum(rows, axis=0), rtol=1e-4, atol=1e-4)


def test_a_configuration_that_claims_batches_for_such_a_model_is_an_error(tmp_path):
    claims = "max_batch_size: 8\n"
    write(tmp_path / "models/softmax", MODELS["softmax-first"][1](), claims)
    write(tmp_path / "models/reshaped", one("Softmax", (4,), axis=0),
          claims + 'input { name: "x" data_type: TYPE_FP32 dims: [ 2, 2 ] reshape { shape: [ 4 ] } }\n')
    write(tmp_path / "models/apart", MODELS["matmul"][1](), claims)
    write(tmp_path / "models/dynamic", quantised(True), claims)
    write(tmp_path / "models/random", MODELS["random"][1](), claims)
    write(tmp_path / "models/whole", MODELS["softmax-first"][1](), "max_batch_size: 0\n")
    code, said = check(tmp_path)
    assert code != 0
    errors = [line for line in said.splitlines() if not line.startswith("note: ")]
    notes = [line for line in said.splitlines() if line.startswith("note: ")]
    assert len(errors) == 2
    for name in ("softmax", "reshaped"):
        line, = (line for line in errors if f"'{name}'" in line)
        assert "max_batch_size is 8, but the model's rows depend on each other: output 'y' differs by" in line
        assert "in a batch of 2 items" in line
    assert not any("'whole'" in line or "'apart'" in line for line in notes)
    line, = (line for line in notes if "'dynamic'" in line)
    assert "batches change its answers" in line
    line, = (line for line in notes if "'random'" in line)
    assert "it batches as max_batch_size says" in line and "answered differently" in line


def test_check_says_what_does_not_batch_and_why(tmp_path):
    write(tmp_path / "models/cumsum", MODELS["cumsum-first"][1]())
    code, said = check(tmp_path)
    assert code == 0
    assert "note: model 'cumsum': it does not batch, since its rows depend on each other: output 'y' differs by" in said


def test_a_reload_is_tried_again(served):
    served.load_model("softmax-last", config=json.dumps({"max_batch_size": 4}))
    assert served.get_model_config("softmax-last")["max_batch_size"] == 4
    with pytest.raises(tritonclient.http.InferenceServerException, match="rows depend on each other"):
        served.load_model("softmax-first", config=json.dumps({"max_batch_size": 4}))


# Models whose files say less, or more, than others': name -> (model, configuration)
def any_rank(config=None):
    return made([N("Neg", ["x"], ["y"])], [("x", None)], [("y", None)]), config


def two_lengths():
    model = made([N("Add", ["ids", "mask"], ["y"])], [("ids", ("seq",)), ("mask", ("seq",))], [("y", ("seq",))])
    return (model,)


def threshold(config=None):
    model = made([N("Mul", ["x", "factor"], ["y"])], [("x", (2,))], [("y", (2,))],
                 [nh.from_array(np.array([3], np.float32), "factor")])
    model.graph.input.append(value("factor", [1]))
    return model, config


def other_output_name():
    model = one("Neg", (2,))
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "Negy_dim_0"
    return (model,)


def picky():
    """Looks up its whole numbers in a table of two rows."""
    return (embedded(),)


OTHERS = {
    "any-rank": any_rank,
    "any-rank-declared": lambda: any_rank('input { name: "x" data_type: TYPE_FP32 dims: [ -1, 2 ] }\n'),
    "any-rank-batches": lambda: any_rank(
        'max_batch_size: 4\ninput { name: "x" data_type: TYPE_FP32 dims: [ 2 ] }\n'
        'output { name: "y" data_type: TYPE_FP32 dims: [ 2 ] }\n'),
    "two-lengths": two_lengths,
    "threshold": threshold,
    "threshold-declared": lambda: threshold('input { name: "factor" data_type: TYPE_FP32 dims: [ 1 ] }\n'),
    "other-output-name": other_output_name,
    "picky": picky,
}


def ask(client, model, **inputs):
    tensors = []
    for name, array in inputs.items():
        kind = {"float32": "FP32", "int64": "INT64"}[array.dtype.name]
        tensors.append(tritonclient.http.InferInput(name, array.shape, kind))
        tensors[-1].set_data_from_numpy(array)
    return client.infer(model, tensors).as_numpy("y")


def test_inputs_of_any_rank_take_any_shape(served):
    for shape in [(3,), (2, 2), (2, 1, 3)]:
        x = np.ones(shape, np.float32)
        np.testing.assert_array_equal(ask(served, "any-rank", x=x), -x)
    x = np.ones((3, 2), np.float32)
    np.testing.assert_array_equal(ask(served, "any-rank-declared", x=x), -x)
    with pytest.raises(tritonclient.http.InferenceServerException, match=r"shape is \[3\], expected \[-1,2\]"):
        ask(served, "any-rank-declared", x=np.ones(3, np.float32))
    assert served.get_model_config("any-rank-batches")["max_batch_size"] == 4
    np.testing.assert_array_equal(ask(served, "any-rank-batches", x=x), -x)


def test_dimensions_of_one_name_are_equal(served):
    ids, mask = np.ones((1, 5), np.float32), np.ones((1, 4), np.float32)
    with pytest.raises(tritonclient.http.InferenceServerException, match="names a dimension of each 'seq'") as caught:
        ask(served, "two-lengths", ids=ids, mask=mask)
    assert caught.value.status() == "400"
    np.testing.assert_array_equal(ask(served, "two-lengths", ids=ids, mask=ids), 2 * ids)


def test_what_a_model_rejects_for_its_input_is_the_clients_error(served):
    with pytest.raises(tritonclient.http.InferenceServerException, match="the model rejects its input") as caught:
        ask(served, "picky", x=np.full((1, 6), 7, np.int64))
    assert caught.value.status() == "400"
    assert "/onnxruntime" not in caught.value.message()
    samples = [line.rpartition(" ") for line in served.metrics().splitlines() if '="picky"' in line]
    ends = {name: float(count) for name, _, count in samples}
    assert [count for name, count in ends.items() if 'outcome="invalid"' in name] == [1]
    assert [count for name, count in ends.items() if 'reason="OTHER"' in name] == [1]
    assert [count for name, count in ends.items() if 'reason="BACKEND"' in name] in ([], [0])


def test_an_input_with_a_default_can_be_given_where_it_is_declared(served):
    x, factor = np.ones((2, 2), np.float32), np.array([5], np.float32)
    np.testing.assert_array_equal(ask(served, "threshold-declared", x=x), 3 * x)
    np.testing.assert_array_equal(ask(served, "threshold-declared", x=x, factor=factor), 5 * x)
    assert served.get_model_config("threshold-declared").get("max_batch_size", 0) == 0
    assert served.get_model_config("threshold")["max_batch_size"] == DEFAULT_MAX_BATCH
    with pytest.raises(tritonclient.http.InferenceServerException, match="'factor' is not one of the model's"):
        ask(served, "threshold", x=x, factor=factor)


def test_exporters_names_of_output_dimensions_keep_no_model_from_batches(served):
    assert served.get_model_config("other-output-name")["max_batch_size"] == DEFAULT_MAX_BATCH
