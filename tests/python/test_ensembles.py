"""Services that several base models answer together: real answers, what fails, what may be wrong."""

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request

import jsonschema
import numpy as np
import pytest
import tritonclient.grpc

from conftest import FERMATA, ROOT, ZOO, Server
from tensors import tensor

BASE = ["base-plain", "base-log", "base-table"]
SCHEDULERS = ["fermata", "schemble", "greedy-edf", "greedy-fifo", "greedy-sjf", "original", "static",
              "selected"]


def subsets_of(models):
    return ["+".join(m for k, m in enumerate(models) if mask >> k & 1)
            for mask in range(1, 1 << len(models))]


def post(server, path, body):
    request = urllib.request.Request(f"http://{server.http}/v2/{path}", json.dumps(body).encode())
    with urllib.request.urlopen(request) as reply:
        return json.loads(reply.read() or "{}")


def get(server, path):
    with urllib.request.urlopen(f"http://{server.http}/v2/{path}") as reply:
        return json.load(reply)


def ask(server, service, x, name="x", timeout_us=None):
    x = np.atleast_2d(np.float32(x))
    parameters = {"explain": True} | ({"timeout": timeout_us} if timeout_us else {})
    return post(server, f"models/{service}/infer", {
        "parameters": parameters, "inputs": [{"name": name, "datatype": "FP32",
                                              "shape": list(x.shape), "data": x.flatten().tolist()}]})


def values(reply):
    output = reply["outputs"][0]
    return np.array(output["data"], np.float32).reshape(output["shape"])


def failed(server, service, x):
    with pytest.raises(urllib.error.HTTPError) as wrong:
        ask(server, service, x)
    return wrong.value.code, json.loads(wrong.value.read())["error"]


# Real models of two numbers (tests/data/make_models.py), fitted by the command on a history.
REAL = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
scheduler: original
services:
  average: {{kind: ensemble, models: [base-plain, base-log, base-table], slo_ms: 60000,
             profile: average, predictor: score}}
  weighted: {{kind: ensemble, models: [base-plain, base-log, base-table], slo_ms: 60000,
              aggregation: weighted-average, weights: [1, 2, 5], profile: weighted}}
  vote: {{kind: ensemble, models: [base-plain, base-log, base-table], slo_ms: 60000,
          aggregation: vote, profile: vote, predictor: score, difficulty: agreement}}
  stacked: {{kind: ensemble, models: [base-plain, base-log, base-table], slo_ms: 60000,
             aggregation: stacking, meta: meta, neighbours: 1, profile: stacked}}
  fragile: {{kind: ensemble, models: [base-log, base-table], slo_ms: 60000, profile: fragile}}
  brittle: {{kind: ensemble, models: [base-table], slo_ms: 60000, profile: brittle}}
"""
FITS = {
    "average": (BASE, ["--task", "regression"]),
    "weighted": (BASE, ["--task", "regression", "--aggregation", "weighted-average",
                        "--weights", "1,2,5"]),
    "vote": (BASE, ["--aggregation", "vote"]),
    "stacked": (BASE, ["--task", "regression", "--aggregation", "stacking", "--meta", "meta",
                       "--neighbors", "1"]),
    "fragile": (BASE[1:], ["--task", "regression"]),
    "brittle": (BASE[2:], ["--task", "regression"]),
}


def history():
    return np.random.default_rng(3).uniform(1, 9.5, (200, 2)).astype(np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ensembles")
    (folder / "models").mkdir()
    for model in [*BASE, "score", "weights", "meta"]:
        (folder / "models" / model).symlink_to(ROOT / "tests" / "data" / "repository" / model)
    np.save(folder / "history.npy", history())
    for name, (models, options) in FITS.items():
        done = subprocess.run(
            [FERMATA, "difficulty", "fit", folder / "history.npy", "--repository", folder / "models",
             "--models", ",".join(models), "--out", folder / name, "--bins", "4", *options],
            text=True, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def real(folder):
    """Every base model answers every query."""
    server = Server(folder, folder / "models", REAL)
    yield server
    assert server.stop() == 0, server.log.read_text()


@pytest.fixture(scope="module")
def alone(real):
    """What base models answer by themselves."""
    return lambda x: np.stack([values(ask(real, model, x)) for model in BASE])


MANY = [[1, 2], [2.7, 2.2], [2.2, 2.7], [9, 3.5], [4, 4]]


@pytest.mark.parametrize("service, weights", [("average", [1, 1, 1]), ("weighted", [1, 2, 5])])
def test_averages_are_of_the_base_models_own_answers(real, alone, service, weights):
    reply = ask(real, service, MANY)
    assert values(reply) == pytest.approx(np.average(alone(MANY), axis=0, weights=weights), rel=1e-5)


def test_votes_are_shares_of_the_base_models(real, alone):
    votes = np.eye(2)[alone(MANY).argmax(axis=2)].mean(axis=0)
    assert len(np.unique(votes)) > 2  # they disagree
    assert values(ask(real, "vote", MANY)) == pytest.approx(votes)


def test_stacking_gives_the_meta_model_all_answers_in_a_row(real, alone):
    row = np.concatenate(list(alone(MANY)), axis=1)
    assert values(ask(real, "stacked", MANY)) == pytest.approx(values(ask(real, "meta", row,
                                                                          "outputs")), rel=1e-5)


def test_each_item_is_a_query_of_its_own(real):
    together = values(ask(real, "average", MANY))
    one_by_one = np.concatenate([values(ask(real, "average", x)) for x in MANY])
    assert together == pytest.approx(one_by_one)


def test_what_is_no_number_or_fails_is_left_out(real):
    x = np.float32([[-2, 3], [20, 3], [-20, 3]])  # of the logarithm, of the table, of both
    plain, logarithm, table = x, np.log(np.abs(x)), np.float32([[64, 9], [400, 9], [400, 9]])
    expected = np.stack([(plain[0] + table[0]) / 2, (plain[1] + logarithm[1]) / 2, plain[2]])
    assert values(ask(real, "average", x)) == pytest.approx(expected, rel=1e-5)
    weighted = np.stack([(plain[0] + 5 * table[0]) / 6, (plain[1] + 2 * logarithm[1]) / 3, plain[2]])
    assert values(ask(real, "weighted", x)) == pytest.approx(weighted, rel=1e-5)


@pytest.mark.parametrize("x, answered, failed_models", [
    ([-2, 3], "base-plain+base-table", "base-log"), ([20, 3], "base-plain+base-log", "base-table"),
    ([-20, 3], "base-plain", "base-log+base-table")])
def test_the_reply_says_who_was_left_out(real, x, answered, failed_models):
    why = ask(real, "average", x)["parameters"]
    assert why["variant"] == answered
    assert why["reason"] == f"'{failed_models}' failed"


def test_the_default_answers_with_those_it_names(folder, tmp_path, alone):
    for name in FITS:
        (tmp_path / name).symlink_to(folder / name)
    server = Server(tmp_path, folder / "models", REAL.replace("original", "fermata"))
    for x in [*MANY, [-2, 3], [20, 3], [-20, 3]]:
        reply = ask(server, "average", x)
        answered = reply["parameters"]["variant"].split("+")
        outputs = [values(ask(server, model, x)) for model in answered]  # none of them fails
        assert values(reply) == pytest.approx(np.mean(outputs, axis=0), rel=1e-5)
    assert server.stop() == 0, server.log.read_text()


def test_stacking_fills_what_is_missing_from_the_likest_query(real):
    x = np.float32([[20, 3]])  # the table fails; the nearest by the others is not far to find
    others = np.concatenate([history(), np.log(history())], axis=1)
    near = np.square(others - np.concatenate([x, np.log(x)], axis=1)).sum(axis=1).argmin()
    filled = np.square(history()[near].astype(int))
    expected = 3 * x + 2 * np.log(x) + filled
    assert values(ask(real, "stacked", x)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("x, answered", [([-2, 3], "base-plain+base-table"),
                                         ([-20, 3], "base-plain")])
def test_where_the_only_planned_model_gives_no_number_others_are_asked(folder, tmp_path, x, answered):
    (tmp_path / "average").symlink_to(folder / "average")
    config = REAL[:REAL.index("  weighted:")].replace("original", "static").replace(
        "profile: average", "profile: average, static: [base-log]")
    server = Server(tmp_path, folder / "models", config)
    assert ask(server, "average", [4, 5])["parameters"]["variant"] == "base-log"
    why = ask(server, "average", x)["parameters"]
    assert (why["variant"], why["outcome"]) == (answered, "on_time")
    assert server.stop() == 0, server.log.read_text()


def test_where_no_base_model_answers_the_error_says_so(real):
    code, message = failed(real, "fragile", [-20, 3])
    assert code == 500 and message.startswith(
        "no base model of 'fragile' answered: its answer has NaN at place 0, expected numbers")
    code, message = failed(real, "brittle", [20, 3])
    assert code == 400 and message.startswith("no base model of 'brittle' answered: ")
    assert values(ask(real, "fragile", [2, 3])) == pytest.approx(
        (np.log([[2, 3]]) + [[4, 9]]) / 2, rel=1e-5)


def test_a_member_service_that_gives_no_number_is_left_out(folder, tmp_path):
    """Of an ensemble with a pipeline among its members."""
    shutil.copytree(folder / "fragile", tmp_path / "through")
    profile = tmp_path / "through" / "profile.json"
    profile.write_text(profile.read_text().replace("base-log", "holder"))
    config = REAL[:REAL.index("  average:")] + """
  holder: {{kind: pipeline, stages: [{{name: only, model: base-log}}]}}
  through: {{kind: ensemble, models: [{{service: holder}}, base-table], slo_ms: 60000, profile: through}}
"""
    server = Server(tmp_path, folder / "models", config.replace("scheduler: original", ""))
    assert values(ask(server, "through", [2, 3])) == pytest.approx((np.log([[2, 3]]) + [[4, 9]]) / 2, rel=1e-5)
    assert values(ask(server, "through", [-2, 3])).tolist() == [[64, 9]]  # the table counts from its end
    assert failed(server, "through", [-20, 3])[0] == 400
    assert server.stop() == 0, server.log.read_text()


def test_an_answer_explains_itself(real):
    why = ask(real, "average", [4, 5])["parameters"]
    assert why["variant"] == "base-plain+base-log+base-table"
    assert why["reason"] == "there was time for every base model"
    assert why["expected_accuracy"] == 1  # of all of them, as the ensemble itself is the truth
    assert [row["subset"] for row in json.loads(why["alternatives"])] == subsets_of(BASE)
    assert why.get("difficulty", 0.45) == pytest.approx(0.45)  # absent: it came too late


def test_clients_see_one_model(real):
    metadata = get(real, "models/average")
    assert metadata["versions"] == ["1"]
    assert [i["name"] for i in metadata["inputs"]] == ["x"]
    assert metadata["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [-1, 2]}]


def test_over_grpc_too(real, alone):
    with tritonclient.grpc.InferenceServerClient(real.grpc) as client:
        x = np.float32(MANY)
        result = client.infer("average", [tensor(tritonclient.grpc, "x", x)],
                              parameters={"explain": True})
        assert result.as_numpy("y") == pytest.approx(alone(MANY).mean(axis=0), rel=1e-5)
        assert "reason" in result.get_response().parameters


def counted(server, model):
    with urllib.request.urlopen(f"http://{server.metrics}/metrics") as reply:
        rows = re.findall(r'fermata_requests_total\{(.*)\} (\d+)', reply.read().decode())
    return sum(int(count) for labels, count in rows if f'service="{model}"' in labels)


def test_metrics_count_each_request_once(real):
    before = [counted(real, model) for model in ("average", *BASE)]
    for x in MANY:
        ask(real, "average", x)
    ask(real, "average", MANY)
    failed(real, "fragile", [-20, 3])
    after = [counted(real, model) for model in ("average", *BASE)]
    assert after == [before[0] + len(MANY) + 1, *before[1:]]


def test_without_a_base_model_the_service_is_unavailable(real):
    ask(real, "average", [1, 2])
    post(real, "repository/models/base-log/unload", {})
    assert failed(real, "average", [1, 2])[0] == 503
    with pytest.raises(urllib.error.HTTPError):
        get(real, "models/average/ready")
    assert values(ask(real, "brittle", [1, 2])).tolist() == [[1, 4]]  # it has no such model
    post(real, "repository/models/base-log/load", {})
    assert ask(real, "average", [1, 2])["parameters"]["variant"] == "+".join(BASE)


# Nothing depends on how fast the machine is: base models are emulated and far apart.
EMULATED = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{count: 3, executor: emulated}}
scheduler: SCHEDULER
services:
  made: {{kind: ensemble, models: [quick, slow, slowest], slo_ms: 60000, profile: profile,
          predictor: judge, static: [quick, slow],
          selector: {{kind: gating, model: gate}}}}
"""
MADE = ["quick", "slow", "slowest"]
MODEL = """
max_batch_size: 4
input {{ name: "x" data_type: TYPE_FP32 dims: 2 }}
output {{ name: "{output}" data_type: TYPE_FP32 dims: {width} }}
"""


def write_profile(folder, models=MADE, **changes):
    worth = {subset: 0.5 + 0.5 * (i + 1) / (2 ** len(models) - 1)
             for i, subset in enumerate(subsets_of(models))}
    measure = {"edges": [0.5], "bins": [{"queries": 30, "utility": worth},
                                        {"queries": 10, "utility": worth}]}
    profile = {"format": 1, "name": "made", "models": models, "task": "regression",
               "aggregation": "average", "width": 3, "queries": 40, "tolerance": 0.1,
               "measures": {"discrepancy": measure | {"norms": [1] * len(models)},
                            "agreement": measure | {"norms": [1]}}} | changes
    schema = json.loads((ROOT / "docs/schemas/difficulty.profile.schema.json").read_text())
    jsonschema.validate(profile, schema)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "profile.json").write_text(json.dumps(profile))


MODELS = [("quick", 1, "y", 3), ("slow", 40, "y", 3), ("slowest", 12_000, "y", 3), ("judge", 1, "score", 1),
          ("gate", 1, "weights", 3), ("wide", 1, "y", 4)]


def write_emulated(folder, models=MODELS):
    for name, ms, output, width in models:
        at = folder / "models" / name
        (at / "1").mkdir(parents=True)
        (at / "config.pbtxt").write_text(MODEL.format(output=output, width=width))
        times = {"runs": 1, "p50_ms": ms, "p90_ms": ms, "p99_ms": ms, "mean_ms": ms}
        (at / "profile.json").write_text(json.dumps(
            {"format": 1, "version": 1, "model": name, "model_version": "1",
             "batches": {"1": times, "4": times}, "linear_ms": {"alpha": 0, "beta": ms, "error": 0},
             "quadratic_ms": {"a": 0, "b": 0, "c": ms, "error": 0}}))
    write_profile(folder / "profile")


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_every_scheduler_answers_and_can_be_replayed(tmp_path, scheduler):
    write_emulated(tmp_path)
    server = Server(tmp_path, tmp_path / "models", EMULATED.replace("SCHEDULER", scheduler))
    ten_seconds = 10_000_000  # too short for the slowest
    if scheduler == "original":
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(server, "made", [1, 2], timeout_us=ten_seconds)
        assert refused.value.code == 504
        chosen = ask(server, "made", [1, 2])["parameters"]["variant"]
    else:
        reply = ask(server, "made", [[1, 2]] * 5, timeout_us=ten_seconds)
        assert values(reply).shape == (5, 3)
        chosen = reply["parameters"]["variant"]
    decisions = get(server, "fermata/decisions")["ensemble"]
    assert server.stop() == 0, server.log.read_text()
    always = {"original": "quick+slow+slowest", "static": "quick+slow",
              "selected": "quick"}  # emulated weights are equal: the first
    assert chosen == always.get(scheduler, chosen)
    if scheduler in ("fermata", "schemble", "greedy-edf", "greedy-fifo", "greedy-sjf"):
        assert 1 <= len(decisions) <= 100 and decisions[0]["queries"]
        assert decisions[0]["policy"] == ("dp" if scheduler == "schemble" else scheduler)
        done = subprocess.run([FERMATA, "plan", "ensemble", "-"], input=json.dumps(decisions[0]),
                              text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
        planned = json.loads(done.stdout)
        assert len(planned["plan"]) + len(planned["unserved"]) == len(decisions[0]["queries"])


def test_a_tight_deadline_gets_what_makes_it_and_says_why(tmp_path):
    write_emulated(tmp_path)
    server = Server(tmp_path, tmp_path / "models", EMULATED.replace("SCHEDULER", "fermata"))
    why = ask(server, "made", [1, 2], timeout_us=10_000_000)["parameters"]
    assert (why["variant"], why["outcome"]) == ("quick+slow", "on_time")
    assert why["reason"] == "no time was left for 'slowest'"
    assert why["expected_accuracy"] == pytest.approx(0.5 + 0.5 * 3 / 7)
    assert why.get("difficulty", 0) == 0  # what an emulated predictor says
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(server, "made", [1, 2], timeout_us=200)
    assert refused.value.code == 504
    assert server.stop() == 0, server.log.read_text()


@pytest.mark.parametrize("service, message", [
    ("models: [quick, absent]", "service 'wrong': model 'absent' is not in the repository"),
    ("models: []", "$.services.wrong.models"),
    ("models: [quick, quick]", "$.services.wrong.models[1]"),
    ("models: [quick, slow, slowest], aggregation: median", "$.services.wrong.aggregation"),
    ("models: [quick, slow, slowest], aggregation: weighted-vote", "$.services.wrong.weights"),
    ("models: [quick, slow, slowest], aggregation: weighted-average, weights: [1, 2]",
     "a weight for each model"),
    ("models: [quick, slow, slowest], aggregation: stacking", "$.services.wrong.meta"),
    ("models: [quick, slow, slowest], aggregation: vote", "is of another aggregation: average"),
    ("models: [slow, quick, slowest]", "is of quick, slow, slowest, expected slow, quick, slowest"),
    ("models: [quick, slow]", "is of quick, slow, slowest, expected quick, slow, in this order"),
    ("models: [quick, slow, slowest], predictor: nobody", "model 'nobody' is not in the repository"),
    ("models: [quick, slow, slowest], predictor: judge, predictor_output: verdict",
     "model 'judge' has no output 'verdict'"),
    ("models: [quick, slow, slowest], static: [judge]", "one of the service's models"),
    ("models: [quick, slow, slowest], selector: {kind: gating}", "$.services.wrong.selector.model"),
    ("models: [quick, slow, slowest], selector: {kind: dynamic-selection, features: none.npy}",
     "dynamic selection is for classes"),
    ("models: [quick, slow, slowest], mode: none", "$.services.wrong.mode"),
    ("models: [quick, slow, slowest], output: z", "'quick' has no output 'z'"),
    ("models: [quick, slow, slowest], profil: profile", "$.services.wrong.profil"),
    ("models: [wide]", "output 'y' of model 'wide' has 4 numbers"),
])
def test_a_wrong_service_is_refused_with_the_place(tmp_path, service, message):
    write_emulated(tmp_path)
    if "wide" in service:
        write_profile(tmp_path / "profile", ["wide"])
    assert message in refusal(tmp_path, "fermata", service + ", profile: profile")


@pytest.mark.parametrize("profile, message", [
    ("nothing", "nothing/profile.json"), ("empty", "$.measures.discrepancy"),
])
def test_a_wrong_profile_is_refused_with_its_file(tmp_path, profile, message):
    write_emulated(tmp_path)
    write_profile(tmp_path / "empty")
    at = tmp_path / "empty" / "profile.json"
    at.write_text(json.dumps(json.loads(at.read_text()) | {"measures": {}}))
    said = refusal(tmp_path, "fermata", f"models: [quick, slow, slowest], profile: {profile}")
    assert message in said and "service 'wrong'" in said


@pytest.mark.parametrize("scheduler, message", [
    ("selected", "the scheduler 'selected' needs its `selector`"),
    ("nexus", "the scheduler 'nexus' serves no ensembles"),
    ("sneakpeek", "the scheduler 'sneakpeek' serves no ensembles"),
])
def test_a_scheduler_that_does_not_suit_is_refused(tmp_path, scheduler, message):
    write_emulated(tmp_path)
    said = refusal(tmp_path, scheduler, "models: [quick, slow, slowest], profile: profile")
    assert f"service 'wrong': {message}" in said


def refusal(folder, scheduler, service):
    config = EMULATED.replace("SCHEDULER", scheduler).split("services:")[0]
    (folder / "fermata.yaml").write_text(
        config.format(models=folder / "models") +
        f"services:\n  wrong: {{kind: ensemble, {service}}}\n")
    done = subprocess.run([FERMATA, "serve", "--config", folder / "fermata.yaml"], text=True,
                          capture_output=True, timeout=60)
    assert done.returncode != 0
    return done.stderr


# The demo's own ensembles, as zoo/fermata.yaml has them.
ENSEMBLES = {"scans": ["scans-dense", "scans-recurrent", "scans-convolutional"],
             "scans-stacked": ["scans-dense", "scans-glance", "scans-recurrent",
                               "scans-convolutional"],
             "count": ["count-rows", "count-recurrent", "count-convolutional"]}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zoo")
    (folder / "models").mkdir()
    for at in (ZOO / "repository").glob("*/1/model.onnx"):
        name = at.parent.parent.name
        if name.startswith(("scans-", "count-")):
            (folder / "models" / name).symlink_to(at.parent.parent)
    services = (ZOO / "fermata.yaml").read_text().split("# Base models answer together")[1].split("# A photograph")[0]
    config = REAL.split("services:")[0] + "services:\n  # " + services.replace(
        "data/", f"{ZOO}/data/").replace("{", "{{").replace("}", "}}")
    server = Server(folder, folder / "models", config)
    yield server
    assert server.stop() == 0, server.log.read_text()


@pytest.mark.parametrize("service", ENSEMBLES)
def test_the_zoos_ensembles_are_their_models_together(zoo, service):
    task = service.split("-")[0]
    x = np.load(ZOO / "data" / task / "test-features.npy")[:3]
    outputs = [values(ask(zoo, model, x, "features")) for model in ENSEMBLES[service]]
    reply = ask(zoo, service, x, "features", timeout_us=60_000_000)
    if service == "scans-stacked":
        expected = values(ask(zoo, "scans-stacking", np.concatenate(outputs, axis=1), "features"))
    elif service == "count":
        weights = json.loads((ZOO / "data" / "count" / "weights.json").read_text())
        expected = np.average(outputs, axis=0, weights=[weights[m] for m in ENSEMBLES[service]])
    else:
        expected = np.mean(outputs, axis=0)
    assert values(reply) == pytest.approx(expected, abs=1e-4)


# Composites in each other: an ensemble one of whose members is a service of variants, at the end of a chain.
COMPOSED = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{count: 3, executor: emulated}}
services:
  either: {{kind: variants, variants: [{{model: quick, accuracy: 0.5}}, {{model: slow, accuracy: 0.9}}]}}
  made: {{kind: ensemble, models: [quick, {{service: either}}], slo_ms: 60000, profile: profile}}
  chain:
    kind: pipeline
    slo_ms: 60000
    stages: [{{name: first, service: start}}, {{name: last, service: made, inputs: {{x: first.z}}}}]
"""


def test_an_ensemble_of_variants_ends_a_chain(tmp_path):
    write_emulated(tmp_path, [("quick", 1, "y", 3), ("slow", 40, "y", 3), ("start", 1, "z", 2)])
    write_profile(tmp_path / "profile", ["quick", "either"])
    server = Server(tmp_path, tmp_path / "models", COMPOSED)
    for service in ("made", "chain"):
        reply = ask(server, service, [[1, 2]] * 3)
        assert values(reply).shape == (3, 3)
        assert reply["parameters"]["outcome"] == "on_time"
    assert [stage["variant"] for stage in json.loads(reply["parameters"]["stages"])] == ["start", "made"]
    with urllib.request.urlopen(f"http://{server.metrics}/metrics") as text:
        answered = dict(re.findall(r'^nv_inference_request_success\{model="([^"]+)".*\} (\d+)$',
                                   text.read().decode(), re.M))
    # Both members of each query, of which every item is one.
    assert {answered[f"made/{member}"] for member in ("quick", "either")} == {"6"}
    assert server.stop() == 0, server.log.read_text()
