#!/usr/bin/env python3
"""Trains the base models of the ensembles, and what aggregates their outputs.

    make zoo                              all of them
    zoo/train_ensembles.py scans-dense    one of them

Writes zoo/repository/NAME/1/model.onnx with its config.pbtxt, labels.txt and card.json, and
zoo/data/TASK/{history,test}-{features,labels}.npy: what `fermata difficulty fit` looks at,
and what is asked. zoo/data/count/weights.json: those of its weighted average.
"""

import functools
import json
import math
import os
import pathlib

# One thread, so that the sums are the same however many cores there are.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import numpy as np

from variants.networks import Recurrent, ResidualCnn, write_mean
from ensembles import meta
from ensembles.networks import Dense, RowsAndColumns
from ensembles.tasks import Count, Scans
from training import cards
from training.command import parser_of
from training.fit import SEED, Member, Variant, cross_entropy, squared_error, train
from training.graph import Graph

ZOO = pathlib.Path(__file__).resolve().parent
EPOCH = 5500
AGGREGATED_VIEWS = 4  # of every recording, to fit what aggregates


def base(network, epochs, reach=(0, 0), **how):
    return Variant([Member(network, epochs, epoch=EPOCH, **how)], reach)


def cnn(shape, classes, grid, channels, blocks, coarse=1):
    return ResidualCnn(shape, classes, (3, 3), grid, channels, blocks, coarse)


SCAN, FORM = Scans.SHAPE, Count.SHAPE
MODELS = {
    "scans": {
        "scans-dense": base(Dense(SCAN, 10, units=256, times=128), 14),
        "scans-glance": base(cnn(SCAN, 10, (4, 4), 16, 1, coarse=2), 10, reach=(1, 1)),
        "scans-recurrent": base(RowsAndColumns(SCAN, 10, 128), 12, reach=(1, 0)),
        "scans-convolutional": base(cnn(SCAN, 10, (4, 4), 32, 2), 8, reach=(1, 1)),
    },
    "count": {
        "count-rows": base(Recurrent(FORM, 1, 32), 8, rate=4e-3),
        "count-recurrent": base(RowsAndColumns(FORM, 1, 64), 10, rate=4e-3),
        "count-convolutional": base(cnn(FORM, 1, (5, 5), 16, 1), 6, reach=(1, 1), rate=8e-3),
    },
}
AVERAGED = ["scans-dense", "scans-recurrent", "scans-convolutional"]
STACKED = "scans-stacking"  # of all models of scans
TASKS = {task.NAME: task for task in (Scans(), Count())}
TOLERANCE = 0.5  # of a count, to be right by the label
AGREED = 0.25  # of a count, to be as the ensemble


def write_data(task, history, test):
    """As .npy: features FP32 [n, values], labels INT64 [n] or, of a count, FP32 [n, 1]."""
    rng = np.random.default_rng(SEED + 1)
    folder = ZOO / "data" / task.NAME
    folder.mkdir(exist_ok=True)
    for name, part, size in (("history", history, task.HISTORY), ("test", test, task.TEST)):
        part = part.take(rng.permutation(np.resize(np.arange(len(part)), size)))
        labels = part.labels.astype(np.int64 if task.CLASSES else np.float32)
        np.save(folder / f"{name}-features.npy", task.views(part, rng))
        np.save(folder / f"{name}-labels.npy", labels if task.CLASSES else labels[:, None])


def load(task, part):
    folder = ZOO / "data" / task.NAME
    return np.load(folder / f"{part}-features.npy"), np.load(folder / f"{part}-labels.npy")


def write_base_model(task, name, variant, params):
    values, outputs = math.prod(task.SHAPE), len(task.CLASSES) or 1
    graph = Graph(name, "features", values, outputs)
    scores = write_mean(graph, [m.network for m in variant.members], params, variant.reach)
    model = graph.model(scores) if task.CLASSES else graph.regressor(scores)
    write(task, name, task.QUESTION, values, 16, model)


def write(task, name, about, values, max_batch, model):
    folder, model = ZOO / "repository" / name, model.SerializeToString()
    (folder / "1").mkdir(parents=True, exist_ok=True)
    (folder / "1" / "model.onnx").write_bytes(model)
    if task.CLASSES:
        cards.write_configuration(folder, about, max_batch, values, task.CLASSES)
    else:
        cards.write_plain_configuration(folder, about, max_batch, values, {"value": 1})
    features, labels = load(task, "test")
    if name == STACKED:
        features = side_by_side(task, features)
    found = outputs_of(name, features)
    result = (cards.scores(found.argmax(axis=1), labels, len(task.CLASSES)) if task.CLASSES
              else cards.errors(found, labels, TOLERANCE))
    cards.write_card(folder / "card.json", {
        "name": name, "task": about, "licence": "Apache-2.0",
        "data": f"{task.SOURCE}, {task.LICENCE}",
        "command": f"zoo/train_ensembles.py {name}", "seed": SEED,
        "test_samples": len(labels), **result})
    print(f"  accuracy {result['accuracy']:.4f}, {len(model) / 1024:.0f} KiB", flush=True)


def outputs_of(name, features):
    """The first output of a model of the repository, as ONNX Runtime runs it."""
    session = cards.session(ZOO / "repository" / name / "1" / "model.onnx")
    output = session.get_outputs()[0].name
    parts = np.array_split(features, math.ceil(len(features) / 64))
    return np.concatenate([session.run([output], {"features": part})[0] for part in parts])


def side_by_side(task, features):
    return np.concatenate([outputs_of(name, features) for name in MODELS[task.NAME]], axis=1)


def aggregation_data(task, fitting):
    """Outputs of the base models, side by side, on recordings that none was trained on."""
    rng = np.random.default_rng(SEED + 2)
    part = fitting.take(np.resize(np.arange(len(fitting)), AGGREGATED_VIEWS * len(fitting)))
    return side_by_side(task, task.views(part, rng)), part.labels


def write_stacking(task, fitting):
    outputs, labels = aggregation_data(task, fitting)
    booster = meta.fit(outputs, labels, len(task.CLASSES), SEED)
    values = outputs.shape[1]
    graph = meta.model(STACKED, booster, values, len(task.CLASSES))
    meta.check(graph, booster, outputs)
    write(task, STACKED, f"outputs of {', '.join(MODELS[task.NAME])} side by side, to one of ten",
          values, 64, graph)


def write_weights(task, fitting):
    """In inverse proportion to the squared errors, their sum 1."""
    outputs, labels = aggregation_data(task, fitting)
    trust = 1 / np.square(outputs - labels[:, None]).mean(axis=0)
    named = dict(zip(MODELS[task.NAME], np.round(trust / trust.sum(), 3).tolist()))
    (ZOO / "data" / task.NAME / "weights.json").write_text(json.dumps(named, indent=2) + "\n")
    print(f"  {named}", flush=True)


AGGREGATIONS = {STACKED: ("scans", write_stacking), "count-weights": ("count", write_weights)}


def main():
    known = [name for models in MODELS.values() for name in models] + list(AGGREGATIONS)
    names = parser_of(__doc__, known).parse_args().names
    for task in TASKS.values():
        fitting, aggregating, history, test = task.splits(np.random.default_rng(SEED))
        write_data(task, history, test)
        fit = functools.partial(train, loss=cross_entropy if task.CLASSES else squared_error)
        for name, variant in MODELS[task.NAME].items():
            if name in names:
                print(name, flush=True)
                seen = task.trained_on(name, fitting)
                params = [fit(task, member, seen) for member in variant.members]
                write_base_model(task, name, variant, params)
        for name, (of, write_aggregation) in AGGREGATIONS.items():
            if name in names and of == task.NAME:
                print(name, flush=True)
                write_aggregation(task, aggregating)


if __name__ == "__main__":
    main()
