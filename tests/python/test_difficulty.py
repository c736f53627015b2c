"""fermata difficulty fit on real digits, against the same figures by NumPy."""

import itertools
import json
import subprocess

import jsonschema
import numpy as np
import pytest

from conftest import FERMATA, ROOT, ZOO

MODELS = ["digits-linear", "digits-mlp", "digits-cnn-small"]
DIGITS = ZOO / "data" / "digits-test.jsonl"


def run(out, *arguments, data=(DIGITS,), models=MODELS, repository=ZOO / "repository"):
    return subprocess.run(
        [FERMATA, "difficulty", "fit", *map(str, data), "--repository", repository, "--models",
         ",".join(models), "--out", out, *map(str, arguments)],
        text=True, capture_output=True, timeout=300)


def schema(name):
    return json.loads((ROOT / f"docs/schemas/difficulty.{name}.schema.json").read_text())


class Fitted:
    """What the command wrote and said."""

    def __init__(self, folder, done, models):
        assert done.returncode == 0, done.stderr
        self.table = done.stderr
        self.result = json.loads(done.stdout)
        jsonschema.validate(self.result, schema("result"))
        self.profile = json.loads((folder / "profile.json").read_text())
        jsonschema.validate(self.profile, schema("profile"))
        self.scores, self.agreement, self.ensemble, self.subsets = (
            np.load(folder / f"{name}.npy") for name in ("scores", "agreement", "ensemble", "subsets"))
        self.outputs = np.stack([np.load(folder / f"outputs-{m}.npy") for m in models])


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("average")
    return Fitted(folder, run(folder, "--bins", 6), MODELS)


@pytest.fixture(scope="module")
def labels():
    return np.array([json.loads(line)["label"] for line in DIGITS.open()])


def softened(outputs, temperature):
    power = np.maximum(outputs.astype(float), 1e-8) ** (1 / temperature)
    return power / power.sum(axis=-1, keepdims=True)


def entropy(p):
    return -(p * np.log2(np.where(p > 0, p, 1))).sum(axis=-1)


def mapped(v):
    return v / (1 + v)


def subsets_of(models):
    for mask in range(1, 1 << len(models)):
        yield mask, "+".join(m for k, m in enumerate(models) if mask >> k & 1)


def monotone(utility, models):
    """The largest of any part."""
    return {name: max(utility[part] for small, part in subsets_of(models) if small & mask == small)
            for mask, name in subsets_of(models)}


def test_outputs_are_the_models(digits, labels):
    for model, output in zip(MODELS, digits.outputs):
        card = json.loads((ZOO / "repository" / model / "card.json").read_text())
        assert np.mean(output.argmax(1) == labels) == pytest.approx(card["accuracy"], abs=1e-6)
        assert digits.result["accuracy"]["models"][model] == pytest.approx(card["accuracy"], abs=1e-6)
    assert digits.ensemble == pytest.approx(digits.outputs.mean(0), abs=1e-6)


def test_temperatures_make_the_labels_likeliest(digits, labels):
    temperatures = [*digits.profile["temperatures"], digits.profile["ensemble_temperature"]]
    for output, temperature in zip([*digits.outputs, digits.ensemble], temperatures):
        def loss(t, output=output):
            return -np.log(softened(output, t)[np.arange(len(labels)), labels]).mean()
        assert loss(temperature) <= min(loss(t) for t in np.geomspace(0.05, 20, 300)) + 1e-9


def test_scores_are_equation_1(digits):
    temperatures = digits.profile["temperatures"]
    p = np.stack([softened(o, t) for o, t in zip(digits.outputs, temperatures)])
    e = softened(digits.ensemble, digits.profile["ensemble_temperature"])
    js = entropy((p + e) / 2) - (entropy(p) + entropy(e)) / 2
    norms = js.mean(axis=1)
    assert digits.profile["measures"]["discrepancy"]["norms"] == pytest.approx(norms)
    assert digits.scores == pytest.approx(mapped((js / norms[:, None]).mean(0)), abs=1e-5)
    p = np.maximum(p, 1e-8)
    kl = np.mean([((a - b) * (np.log(a) - np.log(b))).sum(1)
                  for a, b in itertools.combinations(p, 2)], axis=0)
    assert digits.agreement == pytest.approx(mapped(kl / kl.mean()), abs=1e-5)


def test_the_profile_counts_by_bin_and_subset(digits):
    truth = digits.ensemble.argmax(1)
    for mask, _ in subsets_of(MODELS):
        part = digits.outputs[[k for k in range(3) if mask >> k & 1]].mean(0)
        assert (digits.subsets[:, mask] == (part.argmax(1) == truth)).mean() > 0.998  # near ties
    assert not digits.subsets[:, 0].any() and digits.subsets[:, 7].all()
    for measure, scores in (("discrepancy", digits.scores), ("agreement", digits.agreement)):
        measured = digits.profile["measures"][measure]
        where = np.searchsorted(np.float32(measured["edges"]), scores, side="right")
        assert [b["queries"] for b in measured["bins"]] == np.bincount(where).tolist() == [90] * 6
        for i, found in enumerate(measured["bins"]):
            plain = {name: digits.subsets[where == i, mask].mean()
                     for mask, name in subsets_of(MODELS)}
            assert found["utility"] == pytest.approx(monotone(plain, MODELS))
    easy, *_, hard = digits.profile["measures"]["discrepancy"]["bins"]
    assert easy["utility"]["digits-linear"] == 1 > hard["utility"]["digits-linear"] + 0.2
    assert "digits-linear+digits-mlp " in digits.table


def test_votes_and_weights(tmp_path, digits):
    voted = Fitted(tmp_path / "v", run(tmp_path / "v", "--aggregation", "vote"), MODELS)
    shares = np.eye(10)[digits.outputs.argmax(2)].mean(0)
    assert voted.ensemble == pytest.approx(shares, abs=1e-6)
    weighted = Fitted(tmp_path / "w", run(tmp_path / "w", "--aggregation", "weighted-average",
                                          "--weights", "1,2,5", "--name", "w"), MODELS)
    assert weighted.profile["weights"] == [1, 2, 5] and weighted.result["name"] == "w"
    average = np.average(digits.outputs, axis=0, weights=[1, 2, 5])
    assert weighted.ensemble == pytest.approx(average, abs=1e-6)


def test_stacking_fills_what_is_missing(tmp_path):
    models = ["scans-dense", "scans-glance", "scans-recurrent", "scans-convolutional"]
    features = np.load(ZOO / "data/scans/history-features.npy")[:120]
    np.save(tmp_path / "x.npy", features)
    fitted = Fitted(tmp_path / "s", run(
        tmp_path / "s", "--aggregation", "stacking", "--meta", "scans-stacking", "--meta-output",
        "probabilities", "--neighbors", 5, data=[tmp_path / "x.npy"], models=models), models)
    assert fitted.profile["neighbors"] == 5
    assert "accuracy" not in fitted.result and fitted.profile["ensemble_temperature"] == 1
    agree = fitted.subsets[:, 1:].mean(0)
    assert (agree > 0.6).all() and agree[14] == 1 > agree[0]


def test_numbers(tmp_path, digits):
    """Probabilities are numbers, too."""
    fitted = Fitted(tmp_path / "r", run(tmp_path / "r", "--task", "regression", "--within", 0.25,
                                        "--output", "probabilities"), MODELS)
    distance = np.linalg.norm(fitted.outputs - fitted.ensemble, axis=2)
    assert fitted.result["tolerance"] == fitted.profile["tolerance"] == 0.25
    for k in range(3):
        assert (fitted.subsets[:, 1 << k] == (distance[k] <= 0.25)).mean() > 0.998
    assert fitted.scores == pytest.approx(
        mapped((distance / distance.mean(1, keepdims=True)).mean(0)), abs=1e-5)


def test_runs_do_not_differ(tmp_path, digits):
    again = Fitted(tmp_path / "a", run(tmp_path / "a", "--bins", 6), MODELS)
    assert again.profile == digits.profile and (again.scores == digits.scores).all()


def test_many_models_are_estimated(tmp_path):
    models = [*MODELS, "digits-cnn-medium", "digits-cnn-large"]
    exact = Fitted(tmp_path / "e", run(tmp_path / "e", "--exact-up-to", 5, "--bins", 3,
                                       models=models), models)
    near = Fitted(tmp_path / "n", run(tmp_path / "n", "--bins", 3, models=models), models)
    assert "gamma" not in exact.profile["measures"]["discrepancy"]["bins"][0]
    assert len(near.profile["measures"]["discrepancy"]["bins"][0]["gamma"]) == 4
    assert (near.subsets == 255).any() and not (exact.subsets == 255).any()
    assert near.result["utility"] == pytest.approx(exact.result["utility"], abs=0.01)


@pytest.mark.parametrize("arguments, says", [
    (["--models", "digits-mlp,digits-mlp"], "'digits-mlp' is given twice"),
    (["--models", "digits-mlp,nothing"], "nothing"),
    (["--weights", "1,2,3"], "weights are given, but aggregation is average"),
    (["--aggregation", "weighted-vote", "--weights", "1,2"], "2 weights, expected 3"),
    (["--aggregation", "weighted-vote", "--weights", "1,2,-1"], "above 0"),
    (["--aggregation", "stacking"], "no meta model is named"),
    (["--aggregation", "stacking", "--meta", "digits-mlp"], "meta model 'digits-mlp'"),
    (["--meta", "digits-mlp"], "aggregation is average"),
    (["--task", "regression", "--aggregation", "vote"], "cannot be voted on"),
    (["--output", "label"], "two or more classes"),
    (["--output", "nobody=label"], "none of --models"),
    (["--output", "scores"], "no output 'scores'"),
    (["--labels", "y.npy"], "has its own"),
])
def test_bad_arguments_are_told(tmp_path, arguments, says):
    models = MODELS if arguments[0] != "--models" else arguments.pop(1).split(",")
    done = run(tmp_path / "out", *[a for a in arguments if a != "--models"], models=models)
    assert done.returncode == 2 and done.stdout == "" and says in done.stderr
    assert not (tmp_path / "out" / "profile.json").exists()


@pytest.mark.parametrize("x, says", [
    (np.zeros((0, 64), np.float32), "expected as many rows as the other inputs, from 1"),
    (np.full((2, 64), np.nan, np.float32), "is not finite"),
    (np.zeros((2, 63), np.float32), "model 'digits-linear'"),
    (np.zeros((2, 64), np.float64), "FP64"),
])
def test_bad_histories_are_told(tmp_path, x, says):
    np.save(tmp_path / "x.npy", x)
    done = run(tmp_path / "out", data=[tmp_path / "x.npy"])
    assert done.returncode == 2 and done.stdout == ""
    assert says in done.stderr and done.stderr.count("\n") == 1


def test_unknown_inputs_and_wrong_labels_are_told(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((3, 64), np.float32))
    np.save(tmp_path / "y.npy", np.array([0, 1]))
    done = run(tmp_path / "out", data=[f"image={tmp_path}/x.npy", f"photo={tmp_path}/x.npy"])
    assert done.returncode == 2 and "no base model has such an input" in done.stderr
    done = run(tmp_path / "out", "--labels", tmp_path / "y.npy", data=[tmp_path / "x.npy"])
    assert done.returncode == 2 and "2 labels for 3 queries" in done.stderr
