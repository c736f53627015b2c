#!/usr/bin/env python3
"""Trains the digits variants on scikit-learn's handwritten digits.

    make zoo                             all of them
    zoo/train_digits.py digits-mlp       one of them

Writes zoo/repository/NAME/1/model.onnx, the card NAME/card.json with what the
ONNX file scores on the held-out digits, and those digits with their labels as
zoo/data/digits-test.jsonl: one request of the Open Inference Protocol a line.
"""

import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from digits.networks import CLASSES, Perceptron, ResidualCnn, ShiftedMean
from training.adam import adam, moments_of
from training.cards import answers, scores, write_card
from training.command import parser_of
from training.graph import Graph

ZOO = pathlib.Path(__file__).resolve().parent
SEED = 7
BATCH = 32

# Each with its epochs: (how many, at which scale of the image; 0: the network's own).
VARIANTS = {
    "digits-linear": (Perceptron([]), [(60, 0)]),
    "digits-mlp": (Perceptron([32]), [(60, 0)]),
    "digits-cnn-small": (ResidualCnn(scale=1, channels=8, blocks=1), [(60, 0)]),
    "digits-cnn-medium": (ResidualCnn(scale=2, channels=32, blocks=2), [(40, 1), (20, 0)]),
    "digits-cnn-large": (ShiftedMean(scale=2, channels=48, blocks=3), [(40, 1), (20, 0)]),
}


def split():
    digits = load_digits()
    return train_test_split(digits.data.astype(np.float32), digits.target, test_size=0.3,
                            stratify=digits.target, random_state=SEED)


def shifted(rng, pixels):
    """Each digit moved by at most one pixel each way, the rest filled with paper."""
    padded = np.pad(pixels.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    moves = rng.integers(0, 3, (len(pixels), 2))
    return np.stack([p[y:y + 8, x:x + 8].reshape(64) for p, (y, x) in zip(padded, moves)])


def train(network, schedule, pixels, labels):
    """Adam with a cosine step size on the cross entropy."""
    rng = np.random.default_rng(SEED)
    params = network.init(rng)
    moments = moments_of(params)
    steps_per_epoch = len(pixels) // BATCH
    total = steps_per_epoch * sum(epochs for epochs, _ in schedule)
    step = 0
    for epochs, scale in schedule:
        update = jax.jit(lambda *a, s=scale: _adam(network, s, *a))
        for _ in range(epochs):
            order = rng.permutation(len(pixels))
            for batch in order[:steps_per_epoch * BATCH].reshape(-1, BATCH):
                rate = 2e-3 * 0.5 * (1 + np.cos(np.pi * step / total))
                step += 1
                images = shifted(rng, pixels[batch]) if network.SHIFTS else pixels[batch]
                params, moments, loss = update(params, moments, rate, float(step), images,
                                               labels[batch])
            print(f"  step {step} of {total}, loss {loss:.4f}", flush=True)
    return jax.tree_util.tree_map(np.asarray, params)


def _adam(network, scale, params, moments, rate, step, pixels, labels):
    options = {"scale": scale} if scale else {}

    def loss_of(params):
        scores = jax.nn.log_softmax(network.logits(params, pixels, **options))
        return -scores[jnp.arange(BATCH), labels].mean()

    loss, gradient = jax.value_and_grad(loss_of)(params)
    return (*adam(params, moments, gradient, rate, step), loss)


def card(name, model, pixels, labels):
    """What the ONNX file itself scores, as ONNX Runtime runs it."""
    return {
        "name": name,
        "task": "handwritten digits, 8 by 8 grey values 0 to 16, to one of ten classes",
        "data": "scikit-learn load_digits (UCI, optical recognition of handwritten digits, "
                "CC BY 4.0)",
        "licence": "Apache-2.0",
        "command": f"zoo/train_digits.py {name}",
        "seed": SEED,
        "test_samples": len(labels),
        **scores(answers(model, {"image": pixels}), labels, CLASSES),
    }


def write_requests(pixels, labels):
    path = ZOO / "data" / "digits-test.jsonl"
    with path.open("w") as file:
        for row, label in zip(pixels, labels):
            image = {"name": "image", "shape": [1, 64], "datatype": "FP32",
                     "data": [int(value) for value in row]}
            file.write(json.dumps({"inputs": [image], "label": int(label)},
                                  separators=(",", ":")) + "\n")


def main():
    names = parser_of(__doc__, VARIANTS).parse_args().names
    pixels, test_pixels, labels, test_labels = split()
    write_requests(test_pixels, test_labels)
    for name in names:
        print(name, flush=True)
        network, schedule = VARIANTS[name]
        params = train(network, schedule, pixels, labels)
        graph = Graph(name)
        model = graph.model(network.write(graph, params)).SerializeToString()
        folder = ZOO / "repository" / name
        (folder / "1").mkdir(parents=True, exist_ok=True)
        (folder / "1" / "model.onnx").write_bytes(model)
        result = card(name, model, test_pixels, test_labels)
        write_card(folder / "card.json", result)
        print(f"  accuracy {result['accuracy']:.4f}, {len(model) / 1024:.0f} KiB", flush=True)


if __name__ == "__main__":
    main()
