"""`fermata plan ensemble` as users call it: the documentation's example, every policy,
what a policy needs to know, and the promise about the optimum."""

import itertools
import json
import pathlib
import random
import subprocess

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FERMATA = ROOT / "build" / "fermata"
POLICIES = ["dp", "greedy-edf", "greedy-fifo", "greedy-sjf", "original"]


def run(document):
    text = document if isinstance(document, str) else json.dumps(document)
    return subprocess.run([FERMATA, "plan", "ensemble", "-"], input=text, text=True,
                          capture_output=True, timeout=60)


def planned(document):
    done = run(document)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    jsonschema.validate(result, json.loads(
        (ROOT / "docs/schemas/ensemble.result.schema.json").read_text()))
    return result


def queue(seed, queries=4):
    """Three models and some queries, in whole milliseconds."""
    rng = random.Random(seed)
    names = ["a", "b", "c"]
    subsets = ["+".join(s) for n in (1, 2, 3) for s in itertools.combinations(names, n)]
    return {
        "models": [{"name": n, "latency_ms": rng.randint(1, 9), "busy_ms": rng.randint(0, 5)}
                   for n in names],
        "queries": [{"id": f"q{i}", "deadline_ms": rng.randint(4, 20), "arrival_ms": -rng.random(),
                     "difficulty": rng.random(),
                     "utility": {s: rng.random() for s in subsets if rng.random() < 0.8}}
                    for i in range(queries)],
    }


def check(document, result):
    """Nobody late, nobody twice, the sum of what is planned."""
    free = {m["name"]: m["busy_ms"] for m in document["models"]}
    latency = {m["name"]: m["latency_ms"] for m in document["models"]}
    queries = {q["id"]: q for q in document["queries"]}
    utility = 0
    for served in result["plan"]:
        query = queries.pop(served["id"])
        for model in served["models"]:
            free[model] += latency[model]
        assert served["finish_ms"] == max(free[m] for m in served["models"])
        assert served["finish_ms"] <= query["deadline_ms"]
        utility += query["utility"].get("+".join(served["models"]), 0)
    assert result["utility"] == pytest.approx(utility)
    assert sorted(queries) == sorted(result["unserved"])


def optimum(document):
    """By looking at every choice of subsets in order of deadlines."""
    models = document["models"]
    queries = sorted(document["queries"], key=lambda q: q["deadline_ms"])

    def best_from(i, free):
        if i == len(queries):
            return 0
        best = best_from(i + 1, free)
        for name, utility in queries[i]["utility"].items():
            after = list(free)
            for model in name.split("+"):
                k = [m["name"] for m in models].index(model)
                after[k] += models[k]["latency_ms"]
                if after[k] > queries[i]["deadline_ms"]:
                    break
            else:
                best = max(best, utility + best_from(i + 1, after))
        return best
    return best_from(0, [m["busy_ms"] for m in models])


@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_within_the_promise(seed):
    document = queue(seed) | {"delta": 0.01}
    result = planned(document)
    check(document, result)
    best = optimum(document)
    assert best - 4 * 0.01 <= result["utility"] <= best + 1e-9
    assert run(document).stdout == run(document).stdout


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_keeps_the_deadlines(policy):
    utilities = []
    for seed in range(5):
        document = queue(seed, 12)
        result = planned(document | {"policy": policy})
        check(document, result)
        utilities.append(planned(document)["utility"] - result["utility"])
    assert min(utilities) >= -12 * 0.01
    assert policy == "dp" or max(utilities) > 0


# However many there are: the plan that `max_steps` allow, and how far from the best it may be.
@pytest.mark.parametrize("queries, models", [(64, 8), (256, 8), (1000, 4)])
def test_large_queues_end(queries, models):
    rng = random.Random(queries)
    names = "abcdefgh"[:models]
    subsets = ["+".join(n for k, n in enumerate(names) if s >> k & 1) for s in range(1, 2 ** models)]
    document = {
        "models": [{"name": n, "latency_ms": 20 + 40 * rng.random(), "busy_ms": 0} for n in names],
        "queries": [{"id": str(i), "deadline_ms": 60 * (1 + 19 * rng.random()),
                     "utility": {s: min(1, 0.4 + 0.1 * len(s) * rng.random()) for s in subsets}}
                    for i in range(queries)],
        "max_steps": 1_000_000}
    result = planned(document)
    assert len(result["plan"]) + len(result["unserved"]) == queries
    assert result["plan"] and result.get("exact", True) == ("gap" not in result)


@pytest.mark.parametrize("policy, field", [
    ("greedy-fifo", "arrival_ms"), ("original", "arrival_ms"), ("greedy-sjf", "difficulty")])
def test_a_policy_says_what_it_needs(policy, field):
    document = queue(1) | {"policy": policy}
    assert run(document).returncode == 0
    del document["queries"][2][field]
    done = run(document)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip() == (f"fermata plan: $.queries[2].{field}: missing, expected a number, "
                                   f"since {policy} goes by it")


@pytest.mark.parametrize("utility", [{"d": 0.5}, {"b+a": 0.5}, {"a+": 0.5}, {"": 0.5}])
def test_unknown_subsets(utility):
    document = queue(1)
    document["queries"][0]["utility"] = utility
    done = run(document)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "$.queries[0].utility" in done.stderr


def test_what_the_page_shows_runs():
    section = (ROOT / "docs/plan.md").read_text().split("## `ensemble`")[1]
    result = planned(section.split("```yaml\n")[1].split("```")[0])
    assert result == json.loads(section.split("```json\n")[1].split("```")[0])


def test_help_has_an_example():
    done = subprocess.run([FERMATA, "plan", "ensemble", "--help"], text=True, capture_output=True)
    assert done.returncode == 0
    example = done.stdout.split("tasks.json\n")[1].split("Exit code")[0]
    assert planned(example)["plan"]
