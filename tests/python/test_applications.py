"""The zoo's applications: real data, and variants that score what their cards say."""

import json
import re

import numpy as np
import pytest

from conftest import ZOO
from tensors import infer

MIXES = {"handwriting": [0.1] * 10, "exercise": [0.2 / 6] * 5 + [0.8, 0.2 / 6],
         "wake": [0.95, 0.05], "menu": [0.1] * 10}
CARDS = {card["name"]: card for application in MIXES for card in map(
    json.loads, sorted(path.read_text() for path in
                       (ZOO / "repository").glob(f"{application}-*/card.json")))}
SERVED = {names[0].partition("-")[0]: names for names in (  # by application
    listed.split(", ") for listed in re.findall(
        r"variants: \[(.+)\]", (ZOO / "fermata.yaml").read_text()))}
SLICE = 96


def load(application, part):
    folder = ZOO / "data" / application
    return np.load(folder / f"{part}-features.npy"), np.load(folder / f"{part}-labels.npy")


def application_of(variant):
    return variant.partition("-")[0]


@pytest.mark.parametrize("application", MIXES)
def test_data_are_pairs_of_features_and_labels(application):
    widths = set()
    for part in ("train", "calibration", "stream"):
        features, labels = load(application, part)
        assert (features.dtype, labels.dtype) == (np.float32, np.int64)
        assert len(features) == len(labels) >= 400 and np.isfinite(features).all()
        assert set(labels) == set(range(len(MIXES[application])))
        widths.add(features.shape[1:])
    assert len(widths) == 1


@pytest.mark.parametrize("application", MIXES)
def test_streams_hold_their_mix_of_labels(application):
    _, labels = load(application, "stream")
    shares = np.bincount(labels) / len(labels)
    assert shares == pytest.approx(MIXES[application], abs=0.005)


@pytest.mark.parametrize("application", MIXES)
def test_parts_share_no_example(application):
    rows = [{row.tobytes() for row in load(application, part)[0]}
            for part in ("train", "calibration", "stream")]
    assert len(set.union(*rows)) == sum(map(len, rows))


@pytest.mark.parametrize("application", MIXES)
def test_evidence_is_clearly_weaker_than_the_best_variant(application):
    train, labels = load(application, "train")
    asked, truth = load(application, "calibration")
    distances = (train ** 2).sum(axis=1) - 2 * asked @ train.T
    nearest = labels[np.argsort(distances, axis=1, kind="stable")[:, :5]]
    found = np.array([np.bincount(row).argmax() for row in nearest])
    best = max(card["accuracy"] for name, card in CARDS.items()
               if application_of(name) == application)
    assert np.mean(found == truth) <= best - 0.05


@pytest.mark.parametrize("application", MIXES)
def test_there_are_variants_to_choose_from(application):
    accuracies = [card["accuracy"] for name, card in CARDS.items()
                  if application_of(name) == application]
    assert len(accuracies) >= 3
    assert max(accuracies) - min(accuracies) > 0.02


@pytest.mark.parametrize("application", [a for a in MIXES if a != "menu"])
def test_the_best_served_variant_is_clearly_better_than_the_next(application):
    *_, next_best, best = sorted(CARDS[name]["accuracy"] for name in SERVED[application])
    assert best >= next_best + 0.08
    assert best == max(card["accuracy"] for name, card in CARDS.items()
                       if application_of(name) == application)


def test_specialists_of_the_menu_know_unlike_words():
    usual, numbers, small = (np.array(CARDS[f"menu-{name}"]["recall"])
                             for name in ("usual", "numbers", "small"))
    others = [c for c in range(10) if c not in (1, 2)]
    assert (usual[[1, 2]] > numbers[[1, 2]] + 0.3).all()
    assert usual[[1, 2]].mean() > small[[1, 2]].mean()
    assert numbers[others].mean() > usual[others].mean() + 0.3
    assert sorted(SERVED["menu"]) == sorted(name for name in CARDS if application_of(name) == "menu")


@pytest.mark.parametrize("triton", ["grpc"], indirect=True)
@pytest.mark.parametrize("variant", CARDS)
def test_variants_score_what_their_card_says(triton, variant):
    features, labels = load(application_of(variant), "calibration")
    card = CARDS[variant]
    confusion = np.array(card["confusion"])
    assert confusion.sum(axis=1).tolist() == np.bincount(labels).tolist()
    assert np.trace(confusion) / len(labels) == pytest.approx(card["accuracy"], abs=1e-6)
    outputs = [infer(triton, variant, {"features": batch})
               for batch in np.array_split(features[:SLICE], SLICE // 16)]
    found = np.concatenate([some["label"][:, 0] for some in outputs])
    probabilities = np.concatenate([some["probabilities"] for some in outputs])
    assert found.tolist() == probabilities.argmax(axis=1).tolist()
    sliced = np.zeros_like(confusion)
    np.add.at(sliced, (labels[:SLICE], found), 1)
    assert (sliced <= confusion).all()  # no answer but those that the card counts
    deviation = np.sqrt(card["accuracy"] * (1 - card["accuracy"]) / SLICE)
    assert np.mean(found == labels[:SLICE]) >= card["accuracy"] - 3 * deviation
