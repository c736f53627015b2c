"""The zoo's ensembles: base models that score what their cards say, and know more together."""

import json

import numpy as np
import pytest

from conftest import ZOO
from tensors import tensor

SCANS = ["scans-dense", "scans-glance", "scans-recurrent", "scans-convolutional"]
AVERAGED = [name for name in SCANS if name != "scans-glance"]
WEIGHTS = json.loads((ZOO / "data" / "count" / "weights.json").read_text())
SLICE, QUERIES = 100, 400


def load(task, part):
    folder = ZOO / "data" / task
    return np.load(folder / f"{part}-features.npy"), np.load(folder / f"{part}-labels.npy")


def served(http, model, output, features):
    import tritonclient.http as module
    calls = [http.async_infer(model, [tensor(module, "features", part)])
             for part in np.split(features, len(features) // SLICE)]
    return np.concatenate([call.get_result().as_numpy(output) for call in calls])


@pytest.fixture(scope="module")
def answered():
    """Outputs by model, of its test data; each model is asked once."""
    found = {}

    def ask(http, model):
        if model not in found:
            task, output = ("scans", "probabilities") if model in SCANS else ("count", "value")
            found[model] = served(http, model, output, load(task, "test")[0])
        return found[model]

    return ask


@pytest.mark.parametrize("task, width", [("scans", 256), ("count", 400)])
def test_data_are_pairs_of_features_and_labels(task, width):
    seen = set()
    for part in ("history", "test"):
        features, labels = load(task, part)
        assert features.shape == (len(labels), width) and features.dtype == np.float32
        assert len(labels) >= 1000 and np.isfinite(features).all()
        assert labels.dtype == (np.int64 if task == "scans" else np.float32)
        rows = {row.tobytes() for row in features}
        assert len(rows) == len(features) and not rows & seen
        seen |= rows


@pytest.mark.parametrize("model", [*SCANS, *WEIGHTS])
def test_base_models_score_what_their_card_says(http, answered, model):
    card = json.loads((ZOO / "repository" / model / "card.json").read_text())
    found = answered(http, model)
    if model in SCANS:
        right = found.argmax(axis=1) == load("scans", "test")[1]
    else:
        right = np.abs(found - load("count", "test")[1]) <= card["tolerance"]
    assert right.mean() == pytest.approx(card["accuracy"], abs=2 / len(right))


def test_the_average_and_the_stacked_know_more_than_any_model(http, answered):
    labels = load("scans", "test")[1]
    outputs = {model: answered(http, model) for model in SCANS}
    best = max((output.argmax(axis=1) == labels).mean() for output in outputs.values())
    mean = np.mean([outputs[model] for model in AVERAGED], axis=0)
    assert (mean.argmax(axis=1) == labels).mean() > best + 0.01
    side_by_side = np.concatenate(list(outputs.values()), axis=1)
    stacked = served(http, "scans-stacking", "probabilities", side_by_side)
    assert (stacked.argmax(axis=1) == labels).mean() > best + 0.01
    assert stacked.sum(axis=1) == pytest.approx(np.ones(len(labels)), abs=1e-4)


def test_the_weighted_average_is_clearly_nearer_than_any_model(http, answered):
    labels = load("count", "test")[1]
    assert sum(WEIGHTS.values()) == pytest.approx(1, abs=0.002)
    weighted = sum(weight * answered(http, model) for model, weight in WEIGHTS.items())
    best = min(np.square(answered(http, model) - labels).mean() for model in WEIGHTS)
    assert np.square(weighted - labels).mean() < 0.95 * best


def test_any_model_counts_easy_forms_and_hard_ones_need_all():
    profile = json.loads((ZOO / "data" / "count-weighted" / "profile.json").read_text())
    easy, *_, hard = (b["utility"] for b in profile["measures"]["discrepancy"]["bins"])
    everybody = "+".join(profile["models"])
    assert all(worth > 0.95 for worth in easy.values())
    assert all(worth < 0.7 for subset, worth in hard.items() if subset != everybody)


@pytest.mark.parametrize("ensemble, task, models", [
    ("scans-averaged", "scans", 3), ("scans-stacked", "scans", 4), ("count-weighted", "count", 3)])
def test_the_networks_that_look_at_queries_tell_them_apart(http, ensemble, task, models):
    features = load(task, "test")[0][:QUERIES]
    for measure in ("difficulty", "agreement"):
        score = served(http, f"{ensemble}-{measure}", "score", features)
        assert score.shape == (QUERIES, 1) and score.min() >= 0 and score.max() <= 1
        assert score.std() > 0.1
    weights = served(http, f"{ensemble}-gating", "weights", features)
    assert weights.shape == (QUERIES, models) and weights.min() >= 0
    assert weights.sum(axis=1) == pytest.approx(np.ones(QUERIES), abs=1e-4)
