#!/usr/bin/env python3
"""Trains the applications' variants: handwriting, exercise, wake and menu.

    make zoo                                  all of them
    zoo/train_variants.py wake-small      one of them

Writes zoo/repository/NAME/1/model.onnx with its config.pbtxt, labels.txt and card.json, and
zoo/data/APPLICATION/{train,calibration,stream}-{features,labels}.npy: what neighbours are
looked for in, what recall is measured on, and what is streamed.
"""

import math
import os
import pathlib

# One thread, so that the sums are the same however many cores there are.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import numpy as np

from variants.networks import Recurrent, ResidualCnn, write_mean
from variants.tasks import TASKS, drawn
from training.cards import answers, scores, write_card, write_configuration
from training.command import parser_of
from training.fit import SEED, Member, Once, Variant, train
from training.graph import Graph

ZOO = pathlib.Path(__file__).resolve().parent


def handwriting(channels, blocks, coarse, epochs, seed=SEED):
    cnn = ResidualCnn((1, 24, 24), 10, (3, 3), (4, 4), channels, blocks, coarse)
    return Member(cnn, epochs, seed)


def exercise(channels, blocks):
    return Member(ResidualCnn((6, 96, 1), 7, (5, 1), (4, 1), channels, blocks), epochs=8)


def wake(channels, blocks):
    return Member(ResidualCnn((13, 32, 1), 2, (5, 1), (4, 1), channels, blocks), epochs=15)


def menu(epochs, mix=()):
    return Member(ResidualCnn((13, 32, 1), 10, (5, 1), (4, 1), 6, 1), epochs, mix=tuple(mix))


HANDWRITING = [handwriting(32, 2, coarse=2, epochs=10, seed=SEED + i) for i in range(3)]
EXERCISE = Member(Recurrent((6, 96, 1), 7, 64), epochs=10)
WAKE = [Member(Recurrent((13, 32, 1), 2, 96), epochs=20, seed=SEED + i) for i in range(2)]
MENU = [Member(Recurrent((13, 32, 1), 10, 96), epochs=16, seed=SEED + i) for i in range(2)]

VARIANTS = {
    "handwriting": {
        "handwriting-small": Variant([handwriting(16, 1, coarse=1, epochs=12)]),
        "handwriting-medium": Variant(HANDWRITING[:1]),
        "handwriting-large": Variant(HANDWRITING, reach=(1, 1)),
    },
    "exercise": {
        "exercise-small": Variant([exercise(16, 1)]),
        "exercise-medium": Variant([exercise(32, 1)]),
        "exercise-recurrent": Variant([EXERCISE]),
        "exercise-large": Variant([EXERCISE, exercise(64, 3)]),
    },
    "wake": {
        "wake-small": Variant([wake(16, 1)]),
        "wake-medium": Variant([wake(32, 1)]),
        "wake-recurrent": Variant(WAKE[:1]),
        "wake-large": Variant(WAKE),
    },
    "menu": {  # The first three differ in what they are trained on only, for about as many steps.
        "menu-usual": Variant([menu(120, TASKS["menu"].USUAL_MIX)]),
        "menu-numbers": Variant([menu(32, TASKS["menu"].NUMBERS_MIX)]),
        "menu-small": Variant([menu(24)]),
        "menu-recurrent": Variant(MENU[:1]),
        "menu-large": Variant(MENU),
    },
}


def trained(task, member, fitting):
    if member.mix:
        rng = np.random.default_rng(member.seed)
        fitting = drawn(fitting, np.array(member.mix), rng, len(fitting))
    return train(task, member, fitting)


def write_data(task, fitting, calibration, stream):
    """As .npy: features FP32 [n, values], labels INT64 [n]."""
    rng = np.random.default_rng(SEED + 1)
    folder = ZOO / "data" / task.NAME
    folder.mkdir(exist_ok=True)
    parts = {"train": drawn(fitting, task.TRAIN_MIX, rng, 800),
             "calibration": drawn(calibration, task.TRAIN_MIX, rng, 600),
             "stream": drawn(stream, task.MIX, rng, 1000)}
    for name, part in parts.items():
        np.save(folder / f"{name}-features.npy", task.views(part, rng))
        np.save(folder / f"{name}-labels.npy", part.labels.astype(np.int64))


def load(task, part):
    folder = ZOO / "data" / task.NAME
    return np.load(folder / f"{part}-features.npy"), np.load(folder / f"{part}-labels.npy")


def write_variant(task, name, variant, params):
    values = math.prod(task.SHAPE)
    graph = Graph(name, "features", values, len(task.CLASSES))
    networks = [member.network for member in variant.members]
    model = graph.model(write_mean(graph, networks, params, variant.reach)).SerializeToString()
    folder = ZOO / "repository" / name
    (folder / "1").mkdir(parents=True, exist_ok=True)
    (folder / "1" / "model.onnx").write_bytes(model)
    write_configuration(folder, task.QUESTION, variant.max_batch, values, task.CLASSES)
    features, labels = load(task, "calibration")
    result = scores(answers(model, {"features": features}), labels, len(task.CLASSES))
    write_card(folder / "card.json", {
        "name": name, "task": task.QUESTION, "licence": "Apache-2.0",
        "data": f"{task.SOURCE}, {task.LICENCE}",
        "command": f"zoo/train_variants.py {name}", "seed": SEED,
        "test_samples": len(labels), **result})
    print(f"  accuracy {result['accuracy']:.4f}, {len(model) / 1024:.0f} KiB", flush=True)


def main():
    known = [name for variants in VARIANTS.values() for name in variants]
    names = parser_of(__doc__, known).parse_args().names
    once = Once(trained)
    for application, variants in VARIANTS.items():
        wanted = [name for name in variants if name in names]
        if not wanted:
            continue
        task = TASKS[application]
        parts = task.splits(np.random.default_rng(SEED))
        write_data(task, *parts)
        for name in wanted:
            print(name, flush=True)
            variant = variants[name]
            params = [once(task, member, parts[0]) for member in variant.members]
            write_variant(task, name, variant, params)


if __name__ == "__main__":
    main()
