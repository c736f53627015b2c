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
SIMULATE = {
    "seed": 1, "warmup_s": 0.2, "duration_s": 1.0, "scheduler": "deferred",
    "workers": {"count": 8, "memory_mb": 11000},
    "network": {"control_ms": 0.0, "per_item_ms": 0.0},
    "models": [{"name": "resnet50", "latency_ms": {"alpha": 1.053, "beta": 5.072}, "slo_ms": 25.0,
                "share": 1.0, "max_batch": 256, "arrival": {"process": "poisson"},
                "memory_mb": {"static": 170, "dynamic": 2798}}],
    "rate_rps": 2000.0,
}
COMMANDS = {"placement": ["plan", "placement"], "simulate": ["simulate"], "goodput": ["goodput"]}
DOCUMENTS = {"placement": PLACEMENT, "simulate": SIMULATE, "goodput": SIMULATE}


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
    kind = "simulate" if command == "goodput" else command
    jsonschema.validate(document, schema(kind))
    done = run(command, document)
    assert done.returncode == 0, done.stderr
    jsonschema.validate(json.loads(done.stdout), schema(f"{kind}.result"))


def test_infeasible_results_match():
    done = run("placement", changed(PLACEMENT, "memory_mb", 2000))
    assert done.returncode == 3
    jsonschema.validate(json.loads(done.stdout), schema("placement.result"))


BAD = [
    ("placement", "subclusters", 0), ("placement", "max_rate_rps", -1), ("placement", "sede", 1),
    ("placement", "models", []), ("placement", "models.0.name", ""),
    ("placement", "models.0.rate_rps", "many"), ("placement", "models.1.static_mb", None),
    ("placement", "models.0.current", -1), ("placement", "max_steps", 0),
    ("simulate", "workers.count", 0), ("simulate", "scheduler", "fifo"),
    ("simulate", "models.0.slo_ms", 0), ("simulate", "models.0.latency_ms", {"alpha": 1}),
    ("simulate", "models.0.latency_ms", {"table": {"0": 1}}),
    ("simulate", "models.0.arrival", {"process": "gamma"}), ("simulate", "rate_rps", None),
    ("simulate", "network.delay_ms", 1),
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
            jsonschema.validate(document, schema(command))
