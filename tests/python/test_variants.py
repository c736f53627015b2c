"""Services that several variants may answer: which one does, why, and what may be wrong."""

import concurrent.futures
import json
import re
import subprocess
import urllib.error
import urllib.request

import numpy
import pytest

from conftest import FERMATA, ZOO, Server

MODEL = """
max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: 2 }
output { name: "scores" data_type: TYPE_FP32 dims: 2 }
output { name: "label" data_type: TYPE_INT64 dims: 1 }
"""
# Nothing depends on how fast the machine is: variants are emulated and far apart.
VARIANTS = {"fast": (1, [0.6, 0.9]), "slow": (400, [0.95, 0.95]), "slowest": (3_600_000, [0.97, 0.97])}
SERVICES = """
services:
  plain: {{kind: variants, variants: [fast, slow], slo_ms: 60000}}
  tight: {{kind: variants, variants: [fast, slowest], slo_ms: 60000}}
  known:
    kind: variants
    variants: [slowest]
    slo_ms: 60000
    evidence: {{features: features.npy, labels: labels.npy, k: 5}}
  seen:
    kind: variants
    variants: [slow]
    slo_ms: 60000
    evidence: {{features: features.npy, labels: labels.npy, k: 5}}
"""
CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{count: 1, executor: emulated}}
""" + SERVICES


def write_repository(folder):
    for name, (ms, recall) in VARIANTS.items():
        at = folder / "models" / name
        (at / "1").mkdir(parents=True)
        (at / "config.pbtxt").write_text(MODEL)
        times = {"runs": 1, "p50_ms": ms, "p90_ms": ms, "p99_ms": ms, "mean_ms": ms}
        (at / "profile.json").write_text(json.dumps(
            {"format": 1, "version": 1, "model": name, "model_version": "1",
             "batches": {"1": times, "4": times}, "linear_ms": {"alpha": 0, "beta": ms, "error": 0},
             "quadratic_ms": {"a": 0, "b": 0, "c": ms, "error": 0},
             "accuracy": sum(recall) / 2, "recall": recall}))
    labels = numpy.arange(40) % 2
    numpy.save(folder / "labels.npy", labels)
    numpy.save(folder / "features.npy", numpy.stack([labels, labels], 1).astype(numpy.float32))


@pytest.fixture(scope="module")
def emulated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("variants")
    write_repository(folder)
    server = Server(folder, folder / "models", CONFIG)
    yield server
    assert server.stop() == 0, server.log.read_text()


def ask(server, service, x=(0.0, 0.0), timeout_us=None):
    parameters = {"explain": True} | ({"timeout": timeout_us} if timeout_us else {})
    body = {"parameters": parameters,
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": list(x)}]}
    request = urllib.request.Request(f"http://{server.http}/v2/models/{service}/infer",
                                     json.dumps(body).encode())
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)


def test_an_idle_worker_runs_the_most_accurate_in_time(emulated):
    why = ask(emulated, "plain")["parameters"]
    assert (why["variant"], why["reason"]) == ("slow", "the most accurate for this data")
    assert why["expected_accuracy"] == 0.95
    assert [row["variant"] for row in json.loads(why["alternatives"])] == ["fast", "slow"]


def test_a_tight_deadline_gets_what_makes_it_and_says_why(emulated):
    why = ask(emulated, "tight")["parameters"]
    assert why["variant"] == "fast"
    assert why["reason"].startswith("'slowest' would have been late by ")


def test_what_no_variant_can_make_is_refused(emulated):
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(emulated, "plain", timeout_us=200)
    assert refused.value.code == 504


@pytest.mark.parametrize("label", [0, 1])
def test_evidence_answers_where_no_variant_is_in_time(emulated, label):
    reply = ask(emulated, "known", [label, label])
    why, outputs = reply["parameters"], {o["name"]: o["data"] for o in reply["outputs"]}
    assert (why["variant"], why["outcome"]) == ("evidence", "on_time")
    assert outputs["label"] == [label]
    assert outputs["scores"][label] == pytest.approx(5.5 / 6)  # of 0.5 + 5 and 0.5


def test_each_item_is_answered_by_its_own_evidence(emulated):
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [3, 2],
                        "data": [0, 0, 1, 1, 0, 0]}]}
    request = urllib.request.Request(f"http://{emulated.http}/v2/models/known/infer",
                                     json.dumps(body).encode())
    with urllib.request.urlopen(request) as reply:
        outputs = {o["name"]: o["data"] for o in json.load(reply)["outputs"]}
    assert outputs["label"] == [0, 1, 0]


def test_evidence_tells_how_likely_each_class_is(emulated):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        first = pool.submit(ask, emulated, "plain")  # keeps the worker busy meanwhile
        second = pool.submit(ask, emulated, "seen", [1, 1])
        posteriors = [why.get("posterior") for why in
                      (first.result()["parameters"], second.result()["parameters"])]
    assert posteriors[0] is None
    assert posteriors[1] is None or json.loads(posteriors[1]) == pytest.approx([0.5 / 6, 5.5 / 6])


def test_the_last_decisions_can_be_replayed(emulated):
    ask(emulated, "plain")
    with urllib.request.urlopen(f"http://{emulated.http}/v2/fermata/decisions") as reply:
        problems = json.load(reply)["group"]
    assert 1 <= len(problems) <= 100
    done = subprocess.run([FERMATA, "plan", "group", "-"], input=json.dumps(problems[0]), text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["utility"] > 0


def test_metrics_say_which_variant_answered(emulated):
    def counts():
        with urllib.request.urlopen(f"http://{emulated.metrics}/metrics") as reply:
            found = re.findall(r'^fermata_variant_items_total\{(.*)\} (\d+)', reply.read().decode(), re.M)
        return {tuple(re.findall(r'(?:service|variant)="(.*?)"', labels)): int(n) for labels, n in found}
    before = counts()
    assert set(before) == {("plain", "fast"), ("plain", "slow"), ("tight", "fast"), ("tight", "slowest"),
                           ("known", "slowest"), ("known", "evidence"), ("seen", "slow"), ("seen", "evidence")}
    ask(emulated, "plain")
    ask(emulated, "tight")
    ask(emulated, "known", [1, 1])
    grown = {key: n - before[key] for key, n in counts().items() if n != before[key]}
    assert grown == {("plain", "slow"): 1, ("tight", "fast"): 1, ("known", "evidence"): 1}


def test_a_refusal_names_the_servers_own_delay_apart(emulated):
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(emulated, "plain", timeout_us=200)
    text = json.load(refused.value)["error"]
    assert "the run time 1.000 ms and the allowance for the server's own delay " in text


def check(folder, text):
    (folder / "fermata.yaml").write_text(text.format(models=folder / "models"))
    return subprocess.run([FERMATA, "check", folder / "fermata.yaml"], text=True, capture_output=True)


def test_check_warns_of_variants_whose_accuracy_nobody_knows(tmp_path):
    write_repository(tmp_path)
    assert "no accuracy is known" not in check(tmp_path, CONFIG).stderr
    at = tmp_path / "models" / "slow" / "profile.json"
    known = json.loads(at.read_text())
    at.write_text(json.dumps({k: v for k, v in known.items() if k not in ("accuracy", "recall")}))
    done = check(tmp_path, CONFIG)
    assert done.returncode == 0
    warned = [line for line in done.stderr.splitlines() if "no accuracy is known for 'slow'" in line]
    assert [line.split(":")[1] for line in warned] == [" service 'plain'", " service 'seen'"]
    assert f"fermata profile {tmp_path}/models/slow --data" in warned[0]


@pytest.mark.parametrize("penalty, said", [("step", None), ("sigmoid", "up to their whole budget"),
                                           ("none", "however late")])
def test_check_says_what_a_penalty_lets_happen(tmp_path, penalty, said):
    write_repository(tmp_path)
    text = check(tmp_path, CONFIG.replace("slo_ms", f"penalty: {penalty}, slo_ms", 1)).stderr
    assert ("its penalty lets" in text) == (said is not None) and (said or "") in text


def test_clients_see_one_model_with_the_variants_face(emulated):
    with urllib.request.urlopen(f"http://{emulated.http}/v2/models/seen") as reply:
        metadata = json.load(reply)
    assert metadata["versions"] == ["1"]
    assert [o["name"] for o in metadata["outputs"]] == ["scores", "label"]


@pytest.mark.parametrize("wrong, message", [
    ("variants: []", "$.services.wrong.variants"),
    ("variants: [fast, fast]", "$.services.wrong.variants[1]"),
    ("variants: [absent]", "model 'absent' is not in the repository"),
    ("variants: [fast], penalty: harsh", "$.services.wrong.penalty"),
    ("variants: [fast], prior: [0, 1]", "$.services.wrong.prior[0]"),
    ("variants: [fast], evidence: {{features: none.npy, labels: labels.npy}}", "none.npy"),
    ("variants: [fast], prior: [1, 1, 1], "
     "evidence: {{features: features.npy, labels: labels.npy}}", "2 classes"),
    ("variants: [fast], evidence: {{features: features.npy, labels: labels.npy, k: 0}}",
     "$.services.wrong.evidence.k"),
    ("variants: [fast], evidence: {{features: features.npy, labels: labels.npy, input: y}}",
     "evidence.input is 'y', expected one of the inputs of 'fast': x"),
    ("variants: [fast], model: fast", "$.services.wrong.model"),
])
def test_a_wrong_service_is_refused_with_the_place(tmp_path, wrong, message):
    write_repository(tmp_path)
    config = CONFIG.split("services:")[0] + f"services:\n  wrong: {{{{kind: variants, {wrong}}}}}\n"
    (tmp_path / "fermata.yaml").write_text(config.format(models=tmp_path / "models"))
    done = subprocess.run([FERMATA, "serve", "--config", tmp_path / "fermata.yaml"], text=True,
                          capture_output=True, timeout=60)
    assert done.returncode != 0
    assert message in done.stderr


REAL = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
services:
  wake:
    kind: variants
    variants: [wake-small, wake-medium]
    slo_ms: 60000
    labelled: {{features: {zoo}/data/wake/calibration-features.npy,
               labels: {zoo}/data/wake/calibration-labels.npy}}
    evidence: {{features: {zoo}/data/wake/train-features.npy,
               labels: {zoo}/data/wake/train-labels.npy}}
""".replace("{zoo}", str(ZOO))


def test_real_variants_are_tried_out_and_answer(tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    for name in ("wake-small", "wake-medium"):
        (models / name).symlink_to(ZOO / "repository" / name)
    server = Server(tmp_path, models, REAL)
    features = numpy.load(ZOO / "data" / "wake" / "stream-features.npy")[:40]
    labels = numpy.load(ZOO / "data" / "wake" / "stream-labels.npy")[:40]
    body = {"inputs": [{"name": "features", "datatype": "FP32", "shape": list(features.shape),
                        "data": features.flatten().tolist()}]}
    request = urllib.request.Request(f"http://{server.http}/v2/models/wake/infer",
                                     json.dumps(body).encode())
    with urllib.request.urlopen(request) as reply:
        outputs = {o["name"]: o["data"] for o in json.load(reply)["outputs"]}
    assert numpy.mean(numpy.array(outputs["label"]) == labels) > 0.7
    assert server.stop() == 0, server.log.read_text()


def test_what_is_needed_is_loaded_and_the_least_recently_used_goes(tmp_path):
    write_repository(tmp_path)
    for name in VARIANTS:  # one fits at a time
        at = tmp_path / "models" / name / "profile.json"
        at.write_text(json.dumps(json.loads(at.read_text()) | {"memory_mb": 60, "load_ms": 150}))
    config = CONFIG.replace("executor: emulated}}",
                            "executor: emulated, memory_mb: 100, residency: on_demand}}")
    server = Server(tmp_path, tmp_path / "models", config)
    answers = [ask(server, name)["parameters"] for name in ("fast", "fast", "slow", "fast")]
    assert [why["variant"] for why in answers] == ["fast", "fast", "slow", "fast"]
    assert all(answers[i]["queueing_us"] >= 150_000 for i in (0, 2, 3))
    assert server.stop() == 0, server.log.read_text()


def test_a_model_beyond_a_workers_memory_is_unavailable(tmp_path):
    write_repository(tmp_path)
    at = tmp_path / "models" / "slow" / "profile.json"
    at.write_text(json.dumps(json.loads(at.read_text()) | {"memory_mb": 200}))
    config = CONFIG.replace("executor: emulated}}",
                            "executor: emulated, memory_mb: 100, residency: on_demand}}")
    server = Server(tmp_path, tmp_path / "models", config)
    assert ask(server, "plain")["parameters"]["variant"] == "fast"
    request = urllib.request.Request(f"http://{server.http}/v2/repository/index", b"")
    with urllib.request.urlopen(request) as reply:
        row = next(row for row in json.load(reply) if row["name"] == "slow")
    assert (row["state"], "it needs 200 MiB" in row["reason"]) == ("UNAVAILABLE", True)
    assert server.stop() == 0, server.log.read_text()
