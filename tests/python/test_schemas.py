"""docs/schemas says what the planning and simulation documents look like: the
command and the schema accept and refuse the same ones, and results match."""

import copy
import json
import pathlib
import subprocess

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FERMATA = ROOT / "build" / "fermata"

PLACEMENT = {
    "subclusters": 2, "max_rate_rps": 50000, "memory_mb": 80000, "weight": 1.0,
    "max_change_cost": 4.0, "seed": 1,
    "models": [
        {"name": "m1", "rate_rps": 120.0, "static_mb": 90.0, "dynamic_mb": 2100.0,
         "change_cost": 1.0, "current": 0},
        {"name": "m2", "rate_rps": 80.0, "static_mb": 110.0, "dynamic_mb": 900.0,
         "change_cost": 1.0, "current": None}],
}
GROUP = {
    "now_ms": 0.0,
    "workers": [{"name": "gpu0", "free_at_ms": 3.0, "loaded": ["x3d-s"], "memory_mb": 12000}],
    "applications": [
        {"name": "fall", "penalty": "sigmoid", "prior": [0.5, 0.5],
         "variants": [{"name": "x3d-s", "latency_ms": {"alpha": 2.0, "beta": 9.0}, "load_ms": 40.0,
                       "memory_mb": 300, "recall": [0.95, 0.70], "accuracy": 0.93,
                       "max_batch": 8}],
         "short_circuit": {"name": "knn", "accuracy": 0.71}}],
    "requests": [{"id": "r1", "application": "fall", "arrival_ms": -20.0, "deadline_ms": 130.0,
                  "evidence": [2, 3]}],
    "policy": "sneakpeek", "tau": 5,
}
ENSEMBLE = {
    "models": [{"name": "a", "latency_ms": 30.0, "busy_ms": 12.0},
               {"name": "b", "latency_ms": 45.0, "busy_ms": 0.0}],
    "queries": [{"id": "q1", "deadline_ms": 105.0, "arrival_ms": -5.0, "difficulty": 0.3,
                 "utility": {"a": 0.81, "b": 0.86, "a+b": 0.97}}],
    "delta": 0.01, "policy": "dp",
}
ENSEMBLE_POOL = {
    "policy": "fermata", "worker": "gpu0",
    "workers": [{"name": "gpu0"}, {"name": "gpu1", "type": "old", "free_at_ms": 12.5}],
    "models": [{"name": "a", "latency_ms": {"default": {"alpha": 2, "beta": 8}, "old": {"alpha": 4, "beta": 16}},
                "max_batch": 8},
               {"name": "b", "latency_ms": {"alpha": 5, "beta": 15}}],
    "ensembles": [{"name": "e", "models": ["a", "b"], "mode": "reject",
                   "utility": [{"a": 0.9, "b": 0.9, "a+b": 1}, {"a": 0.6, "b": 0.8, "a+b": 0.9}],
                   "expected": {"co_arrivals": 2.5, "rate_rps": 30, "spread_ms": 40, "slo_ms": 80, "last_ms": -1}}],
    "queries": [{"id": "q1", "ensemble": "e", "arrival_ms": -5, "deadline_ms": 30, "utility": 0, "open": "a+b"},
                {"id": "q2", "ensemble": "e", "arrival_ms": -9, "deadline_ms": None, "utility": 1, "has": "a",
                 "open": "b"}],
    "last_price": 3, "last_style": 1, "last_tried": 4, "try_all": False, "others_price": 0.5,
}
PIPELINE = {
    "rate_rps": 20.0, "sla_ms": 600.0, "alpha": 2.0, "beta": 1.0, "delta": 1e-6, "accuracy": "pas",
    "batch_sizes": [1, 2, 4, 8, 16, 32, 64], "max_replicas": 64, "max_cost": 500,
    "stages": [{"name": "detect", "variants": [
        {"name": "yolov5n", "accuracy": 0.457, "cost": 1,
         "latency_ms": {"table": {"1": 80, "8": 481}}}]}],
}
STREAMS = {
    "workers": 4, "period_ms": 500,
    "variants": [{"name": "yolov4-128", "input_size": 128, "accuracy": 0.27,
                  "latency_ms": {"table": {"1": 23.0, "2": 26.0}}, "request_kb": 6.0}],
    "clients": [{"id": "c1", "rate_rps": 15, "slo_ms": 100, "bandwidth_mbps": 12.5, "rtt_ms": 5.0,
                 "min_accuracy": 0.0}],
    "current": ["yolov4-128"] * 4, "seed": 7, "solver": "best",
}
CORES = {
    "threshold_rps": 4, "batch_sizes": [1, 2],
    "variants": [{"name": "small", "latency_ms": {"1": {"alpha": 60, "beta": 20}}},
                 {"name": "large", "latency_ms": {"1": {"alpha": 300, "beta": 50},
                                                  "4": {"table": {"1": 110, "2": 190}}}}],
}
ADAPT = {
    "pipeline": {key: value for key, value in PIPELINE.items() if key != "rate_rps"},
    "loads": [5, 7, 6, 20, 22, 21, 8, 7, 7, 6, 7, 9], "forecast": "square-root", "quantile": 0.9,
    "interval_s": 2, "apply_s": 1, "drop": "ahead", "method": "rim", "replicas": {"detect": 2},
}
SIMULATE = {
    "seed": 1, "warmup_s": 0.2, "duration_s": 1.0, "scheduler": "deferred",
    "workers": {"count": 8, "memory_mb": 11000},
    "network": {"control_ms": 0.0, "per_item_ms": 0.0},
    "models": [{"name": "resnet50", "latency_ms": {"alpha": 1.053, "beta": 5.072}, "slo_ms": 25.0,
                "share": 1.0, "max_batch": 256, "arrival": {"process": "poisson"},
                "memory_mb": {"static": 170, "dynamic": 2798}}],
    "rate_rps": 2000.0,
}
APPLICATIONS = {
    "warmup_s": 0.1, "duration_s": 0.5, "window_ms": 20, "workers": {"count": 2, "memory_mb": 600},
    "models": [{"name": "small", "latency_ms": {"alpha": 0.4, "beta": 1.5}, "slo_ms": 40}],
    "applications": [
        {"name": "fall", "slo_ms": 60, "penalty": "step", "prior": [0.5, 0.5],
         "variants": [{"model": "small", "accuracy": 0.7, "recall": [0.95, 0.45]},
                      {"name": "large", "latency_ms": {"alpha": 3, "beta": 6}, "max_batch": 16,
                       "load_ms": 8, "memory_mb": 300, "accuracy": 0.93, "recall": [0.95, 0.91]}],
         "short_circuit": {"accuracy": 0.65}, "evidence_delay_ms": 2,
         "examples": [{"label": 0, "evidence": [5, 0], "correct": [True, True]},
                      {"label": 1, "evidence": [1, 4], "correct": [False, True],
                       "short_circuit": True}],
         "labels": [3, 1], "label_changes": [{"at_s": 1, "labels": [0, 1]}, {"at_s": 2, "labels": [1, 1]}]}],
    "rate_rps": 300,
}
ENSEMBLES = {
    "warmup_s": 0.1, "duration_s": 0.5, "workers": {"count": 2},
    "models": [{"name": "small", "latency_ms": {"alpha": 0.4, "beta": 1.5}, "slo_ms": 40}],
    "ensembles": [
        {"name": "fall", "slo_ms": {"uniform": [30, 60]}, "mode": "reject", "static": ["small"],
         "models": [{"model": "small"},
                    {"name": "large", "latency_ms": {"alpha": 3, "beta": 6}, "max_batch": 16}],
         "profile": [{"share": 0.75, "utility": {"small": 0.9, "large": 0.95, "small+large": 1}},
                     {"share": 0.25, "utility": {"small": 0.4, "small+large": 1}}],
         "score_delay_ms": 1,
         "examples": [{"bin": 0, "score": 0.1, "selected": ["small"],
                       "correct": [True, True, True]},
                      {"bin": 1, "correct": [False, True, True]}]}],
    "rate_rps": 150,
}
PIPELINES = {
    "warmup_s": 0.1, "duration_s": 0.5, "workers": {"count": 2},
    "models": [{"name": "small", "latency_ms": {"alpha": 0.4, "beta": 1.5}, "share": 0,
                "slo_ms": {"mix": [{"share": 1, "slo_ms": 40}, {"share": 1, "slo_ms": None}]}}],
    "pipelines": [
        {"name": "signs", "slo_ms": 100, "items": {"1": 0.9, "8": 0.1},
         "stages": [{"name": "detect", "service": "small", "makes": {"0": 0.2, "2": 0.8}},
                    {"name": "read", "after": ["detect"],
                     "variants": [{"model": "small", "accuracy": 0.7},
                                  {"name": "large", "latency_ms": {"alpha": 3, "beta": 6},
                                   "accuracy": 0.93}]}]},
        {"name": "twice", "slo_ms": None, "share": 0.1,
         "stages": [{"name": "one", "service": "signs"}, {"name": "two", "service": "small"}]}],
    "rate_rps": 100,
}
COMMANDS = {"placement": ["plan", "placement"], "group": ["plan", "group"],
            "ensemble": ["plan", "ensemble"], "ensemble_pool": ["plan", "ensemble"],
            "pipeline": ["plan", "pipeline"], "adapt": ["adapt"], "cores": ["plan", "cores"],
            "simulate": ["simulate"], "goodput": ["goodput"], "applications": ["simulate"],
            "ensembles": ["simulate"], "pipelines": ["simulate"], "streams": ["plan", "streams"]}
DOCUMENTS = {"placement": PLACEMENT, "group": GROUP, "ensemble": ENSEMBLE, "ensemble_pool": ENSEMBLE_POOL, "pipeline": PIPELINE,
             "adapt": ADAPT, "cores": CORES,
             "simulate": SIMULATE, "goodput": SIMULATE, "applications": APPLICATIONS,
             "ensembles": ENSEMBLES, "pipelines": PIPELINES, "streams": STREAMS}
SCHEMAS = {"goodput": "simulate", "applications": "simulate", "ensembles": "simulate",
           "pipelines": "simulate"}


def schema(name):
    return json.loads((ROOT / "docs" / "schemas" / f"{name}.schema.json").read_text())


def run(command, document):
    return subprocess.run([FERMATA, *COMMANDS[command], "-"], input=json.dumps(document), text=True,
                          capture_output=True, timeout=120)


def changed(document, path, value):
    """A copy with the value at a path like models.0.name replaced, or removed by None."""
    result = copy.deepcopy(document)
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    target = result
    for step in way:
        target = target[step]
    if value is None:
        del target[last]
    else:
        target[last] = value
    return result


@pytest.mark.parametrize("name", sorted(p.name for p in (ROOT / "docs" / "schemas").glob("*.json")))
def test_schemas_are_schemas(name):
    jsonschema.Draft202012Validator.check_schema(json.loads((ROOT / "docs/schemas" / name).read_text()))


@pytest.mark.parametrize("command", COMMANDS)
def test_documents_and_results_match(command):
    document = DOCUMENTS[command]
    kind = SCHEMAS.get(command, command)
    jsonschema.validate(document, schema(kind))
    done = run(command, document)
    assert done.returncode == 0, done.stderr
    jsonschema.validate(json.loads(done.stdout), schema(f"{kind}.result"))


def test_goodput_needs_no_rate():
    model = {"name": "m", "latency_ms": {"alpha": 1, "beta": 5}, "slo_ms": 50}
    document = {"workers": {"count": 1}, "duration_s": 0.5, "models": [model]}
    done = run("goodput", document)
    assert done.returncode == 0, done.stderr
    assert done.stdout == run("goodput", document | {"rate_rps": 5}).stdout
    assert "$.rate_rps: missing" in run("simulate", document).stderr


def write_profile(folder):
    """Of a model that takes 5 ms and 1 ms an item."""
    rows = {str(b): {"runs": 9, "p50_ms": b + 4, "p90_ms": b + 5, "p99_ms": b + 6, "mean_ms": b + 4}
            for b in (1, 2, 4, 8)}
    file = folder / "profile.json"
    file.write_text(json.dumps({
        "format": 1, "version": 1, "model": "m", "model_version": "1", "batches": rows, "accuracy": 0.8,
        "recall": [0.7, 0.9], "linear_ms": {"alpha": 1, "beta": 4, "error": 0},
        "quadratic_ms": {"a": 0, "b": 1, "c": 4, "error": 0}}))
    return str(file)


def test_a_profile_stands_for_what_it_measured(tmp_path):
    profile = write_profile(tmp_path)
    table = {"table": {str(b): b + 5 for b in (1, 2, 4, 8)}}
    model = {"name": "m", "slo_ms": 50}
    document = {"workers": {"count": 2}, "rate_rps": 300, "duration_s": 0.5}
    known = document | {"models": [model | {"latency_ms": table}]}
    given = document | {"models": [model | {"profile": profile}]}
    jsonschema.validate(given, schema("simulate"))
    done = run("simulate", given)
    assert done.returncode == 0, done.stderr
    assert done.stdout == run("simulate", known).stdout
    by_type = document | {"workers": [{"type": "a"}, {"type": "b"}],
                          "models": [model | {"profile": {"a": profile, "b": profile}}]}
    jsonschema.validate(by_type, schema("simulate"))
    assert run("simulate", by_type).returncode == 0
    application = {"name": "any", "slo_ms": 50, "prior": [1, 1], "variants": [{"name": "v", "profile": profile}],
                   "examples": [{"label": 0, "correct": [True]}, {"label": 1, "correct": [True]}]}
    variants = document | {"applications": [application]}
    jsonschema.validate(variants, schema("simulate"))
    assert run("simulate", variants).returncode == 0, run("simulate", variants).stderr


@pytest.mark.parametrize("change, said", [
    ({"profile": "none.json"}, "none.json"), ({"profile": 3}, "$.models[0].profile"),
    ({"latency_ms": {"alpha": 1, "beta": 1}}, "$.models[0].profile"),
    ({"profile": {"default": 3}}, "$.models[0].profile.default"),
    ({"profile": {"x": "y"}}, "a type of the workers")])
def test_a_wrong_profile_is_named(tmp_path, change, said):
    model = {"name": "m", "slo_ms": 50, "profile": write_profile(tmp_path)}
    done = run("simulate", {"rate_rps": 1, "workers": {"count": 1}, "models": [model | change]})
    assert done.returncode == 2 and said in done.stderr, done.stderr


def workers_for(document, rate):
    return subprocess.run([FERMATA, "goodput", "-", "--rate", str(rate)], input=json.dumps(document), text=True,
                          capture_output=True, timeout=120)


def test_goodput_says_how_many_workers_a_rate_needs():
    model = {"name": "m", "latency_ms": {"alpha": 4, "beta": 2}, "slo_ms": 50}
    document = {"workers": {"count": 40}, "duration_s": 5, "models": [model]}
    done = workers_for(document, 500)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    jsonschema.validate(result, schema("simulate.result"))
    needed = result["workers"]
    tried = {step["workers"]: step["worst_bad_rate"] <= 0.01 for step in result["steps"]}
    assert tried[needed] and not tried.get(needed - 1, False)
    enough, few = (run("simulate", document | {"rate_rps": 500, "workers": {"count": n}})
                   for n in (needed, needed - 1))
    assert json.loads(enough.stdout)["bad_rate"] <= 0.01 < json.loads(few.stdout)["bad_rate"]


def test_goodput_says_that_no_number_of_workers_is_enough():
    slow = {"name": "m", "latency_ms": {"alpha": 1, "beta": 500}, "slo_ms": 25}
    document = {"workers": {"count": 1}, "duration_s": 0.5, "models": [slow]}
    done = workers_for(document, 10)
    result = json.loads(done.stdout)
    jsonschema.validate(result, schema("simulate.result"))
    assert (done.returncode, result["feasible"]) == (3, False) and "'m'" in result["binding"]
    two = changed(document, "workers", [{"type": "a"}, {"type": "b"}])
    done = workers_for(two, 10)
    assert done.returncode == 2 and "$.workers" in done.stderr
    assert workers_for(document, -1).returncode == 2


@pytest.mark.parametrize("words, wrong, known", [
    (["chekc", "x"], "chekc", "check"), (["plan", "grup", "-"], "grup", "group")])
def test_a_mistyped_command_is_named(words, wrong, known):
    done = subprocess.run([FERMATA, *words], text=True, capture_output=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert f"'{wrong}' is no command" in done.stderr and known in done.stderr


def test_goodput_says_that_no_rate_is_good_or_that_every_rate_is():
    slow = {"name": "m", "latency_ms": {"alpha": 1, "beta": 500}, "slo_ms": 25}
    document = {"workers": {"count": 1}, "rate_rps": 10, "duration_s": 0.5, "models": [slow]}
    done = run("goodput", document)
    result = json.loads(done.stdout)
    assert (done.returncode, result["feasible"], result["goodput_rps"]) == (3, False, 0)
    assert "'m'" in result["binding"]
    jsonschema.validate(result, schema("simulate.result"))
    done = run("goodput", changed(document, "models.0", slow | {"slo_ms": None}))
    assert (done.returncode, done.stdout) == (2, "") and "expected slo_ms" in done.stderr


@pytest.mark.parametrize("scheduler", schema("simulate")["properties"]["scheduler"]["enum"])
def test_every_scheduler_is_known(scheduler):
    done = run("simulate", changed(SIMULATE, "scheduler", scheduler))
    assert done.returncode == 0, done.stderr


def test_applications_need_no_models():
    document = changed(changed(APPLICATIONS, "models", None), "applications.0.variants.0",
                       {"name": "small", "latency_ms": {"alpha": 0.4, "beta": 1.5}, "accuracy": 0.7})
    jsonschema.validate(document, schema("simulate"))
    done = run("applications", document)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    jsonschema.validate(result, schema("simulate.result"))
    assert result["models"] == [] and set(result["applications"][0]["variants"]) <= {"small", "large"}


def test_a_variant_that_fits_no_worker_is_infeasible():
    done = run("applications", changed(APPLICATIONS, "workers.memory_mb", 299))
    assert done.returncode == 3
    assert json.loads(done.stdout) == {
        "feasible": False,
        "binding": "memory_mb of workers 0 is 299, its models need 0, variant 'large' 300"}


def test_what_the_page_shows_runs():
    page = (ROOT / "docs" / "simulate.md").read_text()
    blocks = page.split("```yaml\n")[1:]
    assert len(blocks) == 7
    for block in blocks:
        text = block.split("```")[0]
        kind = "adapt" if text.startswith("pipeline:") else "simulate"
        done = subprocess.run([FERMATA, kind, "-"], input=text, text=True, capture_output=True,
                              timeout=120)
        assert done.returncode == 0, done.stderr
        jsonschema.validate(json.loads(done.stdout), schema(f"{kind}.result"))


def test_infeasible_results_match():
    done = run("placement", changed(PLACEMENT, "memory_mb", 2000))
    assert done.returncode == 3
    jsonschema.validate(json.loads(done.stdout), schema("placement.result"))


@pytest.mark.parametrize("path, value, binding", [
    ("sla_ms", 79, "sla_ms"), ("max_replicas", 1, "max_replicas"), ("max_cost", 1.5, "max_cost"),
    ("batch_sizes", [16], "batch_sizes")])
def test_a_pipeline_without_a_plan_names_the_limit(path, value, binding):
    done = run("pipeline", changed(PIPELINE, path, value))
    assert done.returncode == 3
    result = json.loads(done.stdout)
    jsonschema.validate(result, schema("pipeline.result"))
    assert result["binding"] == binding


def test_cores_of_a_stage():
    done = run("cores", CORES)
    assert json.loads(done.stdout) == {"feasible": True, "sla_ms": 475.0,
                                       "cores": {"small": 1, "large": 4}}
    done = run("cores", changed(CORES, "threshold_rps", 12))
    assert done.returncode == 3
    jsonschema.validate(json.loads(done.stdout), schema("cores.result"))
    assert json.loads(done.stdout)["cores"] == {"small": 1, "large": None}


def test_without_memory_for_any_variant_there_is_no_group_schedule():
    document = changed(changed(GROUP, "workers.0.memory_mb", 299), "workers.0.loaded", [])
    done = run("group", changed(document, "applications.0.short_circuit", None))
    assert done.returncode == 3
    jsonschema.validate(json.loads(done.stdout), schema("group.result"))
    assert json.loads(run("group", document).stdout)["short_circuited"] == ["r1"]


# What a schema cannot say.
@pytest.mark.parametrize("path, value", [
    ("worker", "gpu2"), ("workers.1.name", "gpu0"), ("models.1.name", "a"), ("ensembles.0.models.1", "c"),
    ("ensembles.0.utility.0", {"b+a": 1}), ("queries.1.id", "q1"), ("queries.0.ensemble", "f"),
    ("queries.0.utility", 2), ("queries.1.open", "a+b"), ("queries.0.open", "b+a"),
])
def test_wrong_references_of_ensembles_of_a_pool(path, value):
    done = run("ensemble_pool", changed(ENSEMBLE_POOL, path, value))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and "$." + path.split(".")[0] in done.stderr


# What a schema cannot say.
@pytest.mark.parametrize("path, value", [
    ("requests.0.evidence", [2, 3, 4]), ("requests.0.application", "fell"),
    ("requests.0.deadline_ms", -20), ("workers.0.loaded", ["x3d-m"]),
    ("applications.0.variants.0.recall", [0.9]), ("applications.0.short_circuit.name", "x3d-s"),
])
def test_wrong_references_and_lengths_of_groups(path, value):
    done = run("group", changed(GROUP, path, value))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and "$." + path.split(".")[0] in done.stderr


# What a schema cannot say.
@pytest.mark.parametrize("path, value", [
    ("ensembles.0.profile.0.share", 0.5), ("ensembles.0.profile.0.utility", {"large+small": 1}),
    ("ensembles.0.slo_ms.uniform", [60, 30]), ("ensembles.0.static", ["middle"]),
    ("ensembles.0.examples.0.selected", ["middle"]), ("ensembles.0.examples.0.bin", 2),
    ("ensembles.0.examples.0.correct", [True, True]), ("ensembles.0.models.0.model", "middle"),
    ("ensembles.0.models.1.name", "small"), ("ensembles.0.name", "small"),
])
def test_wrong_references_and_lengths_of_ensembles(path, value):
    done = run("ensembles", changed(ENSEMBLES, path, value))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and "$.ensembles[0]" in done.stderr


@pytest.mark.parametrize("scheduler", ["fermata", "deferred", "schemble", "greedy-edf", "greedy-fifo",
                                       "greedy-sjf", "original", "static", "selected"])
@pytest.mark.parametrize("mode", ["reject", "serve-all"])
def test_every_scheduler_of_ensembles_simulates(scheduler, mode):
    document = changed(changed(ENSEMBLES, "ensembles.0.mode", mode), "models", None)
    document = changed(document, "ensembles.0.models.0",
                       {"name": "small", "latency_ms": {"alpha": 0.4, "beta": 1.5}})
    done = run("ensembles", document | {"scheduler": scheduler})
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    jsonschema.validate(result, schema("simulate.result"))
    fall = result["ensembles"][0]
    assert fall["on_time"] + fall["late"] + fall["dropped"] == fall["offered"] > 0
    assert set(fall["subsets"]) <= {"small", "large", "small+large"}


@pytest.mark.parametrize("scheduler", ["nexus", "sneakpeek"])
def test_schedulers_without_ensembles_say_so(scheduler):
    done = run("ensembles", ENSEMBLES | {"scheduler": scheduler})
    assert done.returncode == 2
    assert done.stderr == f'$.scheduler: "{scheduler}", expected one that serves ensembles\n'


BAD = [
    ("placement", "subclusters", 0), ("placement", "max_rate_rps", -1), ("placement", "sede", 1),
    ("placement", "models", []), ("placement", "models.0.name", ""),
    ("placement", "models.0.rate_rps", "many"), ("placement", "models.1.static_mb", None),
    ("placement", "models.0.current", -1), ("placement", "max_steps", 0),
    ("group", "tua", 5), ("group", "now_ms", None), ("group", "tau", -1), ("group", "workers", []),
    ("group", "policy", "fifo"), ("group", "data_aware", 1), ("group", "max_group", 0),
    ("group", "applications.0.prior", [0.5, 0]), ("group", "applications.0.penalty", "cubic"),
    ("group", "applications.0.penalty", {"constant": 1.5}),
    ("group", "applications.0.variants", []),
    ("group", "applications.0.variants.0.accuracy", 1.1),
    ("group", "applications.0.variants.0.load_ms", -1),
    ("group", "applications.0.variants.0.latency_ms", {"alpha": 1}),
    ("group", "workers.0.loaded", ["x3d-s", "x3d-s"]), ("group", "requests.0.id", ""),
    ("group", "requests.0.evidence", [2, -3]), ("group", "requests.0.deadline_ms", None),
    ("ensemble_pool", "worker", None), ("ensemble_pool", "workers", []),
    ("ensemble_pool", "models.0.name", "a+b"), ("ensemble_pool", "ensembles.0.mode", "serve"),
    ("ensemble_pool", "ensembles.0.utility", []), ("ensemble_pool", "ensembles.0.utility.0.a", 2),
    ("ensemble_pool", "ensembles.0.expected.co_arrivals", 65), ("ensemble_pool", "queries.0.utility", -1),
    ("ensemble_pool", "queries", []), ("ensemble_pool", "queries.0.id", ""), ("ensemble_pool", "last_price", -1),
    ("ensemble", "deltas", 1), ("ensemble", "delta", 0), ("ensemble", "policy", "greedy"),
    ("ensemble", "models", []), ("ensemble", "models.0.name", "a+b"),
    ("ensemble", "models.0.latency_ms", {"alpha": 1, "beta": 2}),
    ("ensemble", "models.0.busy_ms", -1), ("ensemble", "models.0.latency_ms", None),
    ("ensemble", "queries", None), ("ensemble", "queries.0.id", ""),
    ("ensemble", "queries.0.deadline_ms", -1), ("ensemble", "queries.0.deadline_ms", None),
    ("ensemble", "queries.0.utility", [0.5]), ("ensemble", "queries.0.utility", None),
    ("ensemble", "queries.0.utility.a", 1.5), ("ensemble", "queries.0.difficulty", "hard"),
    ("pipeline", "rate_rps", 0), ("pipeline", "sla_ms", 0), ("pipeline", "alpha", None),
    ("pipeline", "beta", -1), ("pipeline", "accuracy", "mean"), ("pipeline", "batch_sizes", []),
    ("pipeline", "batch_sizes", [1, 1]), ("pipeline", "max_cost", 0), ("pipeline", "stages", []),
    ("pipeline", "stages.0.variants", []), ("pipeline", "stages.0.after", "detect"),
    ("pipeline", "stages.0.items", 0), ("pipeline", "stages.0.variants.0.accuracy", 45.7),
    ("pipeline", "stages.0.variants.0.cost", -1), ("pipeline", "most_cost", 1),
    ("streams", "workers", 0), ("streams", "solver", "milp"), ("streams", "variants", []),
    ("streams", "variants.0.accuracy", 1.1), ("streams", "variants.0.request_kb", -1),
    ("streams", "variants.0.latency_ms", {"table": {"0": 1}}),
    ("streams", "variants.0.input_size", 0), ("streams", "variants.0.max_batch", 257),
    ("streams", "variants.0.sides", 128), ("streams", "clients.0.id", ""),
    ("streams", "clients.0.rate_rps", 0), ("streams", "clients.0.slo_ms", None),
    ("streams", "clients.0.bandwidth_mbps", 0), ("streams", "clients.0.rtt_ms", -1),
    ("streams", "clients.0.min_accuracy", 2), ("streams", "current", "yolov4-128"),
    ("streams", "max_steps", 0), ("streams", "period_ms", 0),
    ("cores", "threshold_rps", 0), ("cores", "variants", []), ("cores", "variants.0.latency_ms", {}),
    ("cores", "variants.0.latency_ms", {"0": {"alpha": 1, "beta": 1}}), ("cores", "batch_sizes", [0]),
    ("adapt", "pipeline", None), ("adapt", "pipeline.sla_ms", 0), ("adapt", "method", "fa3"),
    ("adapt", "loads", []), ("adapt", "loads.0", -1), ("adapt", "replicas.detect", 0),
    ("adapt", "forecast", "lstm"), ("adapt", "interval_s", 0), ("adapt", "drop", "late"),
    ("adapt", "quantile", 1), ("adapt", "scale", 0), ("adapt", "margins", 1),
    ("simulate", "workers.count", 0), ("simulate", "scheduler", "fifo"),
    ("simulate", "models.0.slo_ms", 0), ("simulate", "models.0.latency_ms", {"alpha": 1}),
    ("simulate", "models.0.latency_ms", {"table": {"0": 1}}),
    ("simulate", "models.0.arrival", {"process": "gamma"}), ("simulate", "rate_rps", None),
    ("simulate", "network.delay_ms", 1), ("simulate", "models", None),
    ("applications", "window_ms", -1), ("applications", "applications", []),
    ("applications", "applications.0.slo_ms", 0),
    ("applications", "applications.0.slo_ms", {"normal": [60]}),
    ("applications", "applications.0.slo_ms", {"normal": [60, -1]}),
    ("applications", "applications.0.slo_ms", {"normal": [0, 1]}),
    ("applications", "applications.0.penalty", "late"),
    ("applications", "applications.0.prior", [0.5, 0]),
    ("applications", "applications.0.variants", []),
    ("applications", "applications.0.variants.0.name", "small"),
    ("applications", "applications.0.variants.1.accuracy", 1.1),
    ("applications", "applications.0.variants.1.load_ms", -1),
    ("applications", "applications.0.short_circuit", {}),
    ("applications", "applications.0.evidence_delay_ms", -1),
    ("applications", "applications.0.examples.0.label", -1),
    ("applications", "applications.0.examples.0.correct", [1, 0]),
    ("applications", "applications.0.examples.1.evidence", [1.5, 0]),
    ("applications", "applications.0.labels", [-1, 1]),
    ("ensembles", "ensembles", []), ("ensembles", "ensembles.0.name", None),
    ("ensembles", "ensembles.0.slo_ms", 0), ("ensembles", "ensembles.0.slo_ms", {"uniform": [30]}),
    ("ensembles", "ensembles.0.models", []), ("ensembles", "ensembles.0.mode", "serve"),
    ("ensembles", "ensembles.0.models.1.accuracy", 0.9),
    ("ensembles", "ensembles.0.static", "small"), ("ensembles", "ensembles.0.profile", []),
    ("ensembles", "ensembles.0.profile.0.share", 1.5),
    ("ensembles", "ensembles.0.profile.0.utility", None),
    ("ensembles", "ensembles.0.profile.0.utility.large", 1.1),
    ("ensembles", "ensembles.0.score_delay_ms", -1), ("ensembles", "ensembles.0.examples", []),
    ("ensembles", "ensembles.0.examples.0.bin", -1),
    ("ensembles", "ensembles.0.examples.0.correct", [1, 0, 0]),
    ("ensembles", "ensembles.0.examples.0.right", True),
]


@pytest.mark.parametrize("command, path, value", BAD)
def test_both_refuse_what_is_wrong(command, path, value):
    document = changed(DOCUMENTS[command], path, value)
    done = run(command, document)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1 and "$" in done.stderr
    if path != "rate_rps":  # the schema cannot see whether every model has a trace
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document, schema(SCHEMAS.get(command, command)))
