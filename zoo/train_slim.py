#!/usr/bin/env python3
"""Trains the zoo's dynamic DNN: four widths and an early exit in one set of weights.

    make zoo

On 7000 of MNIST's handwritten digits, each seen as on a badly scanned form, at 28 by 28 pixels
and as many fewer as a level takes. First the weights at all widths together, the exit's and the
end's losses added up (DRESS, Qu and others, 2022; Jellyfish, section 5.2), then, on 1500 digits
more, the decision to exit: a logistic regression that learns whether nothing is lost by it
(section 5.3), and for each level the lowest threshold that costs no accuracy that can be told from
noise.

Writes zoo/repository/scans-slim-SIDE (the largest holds the files, the others name them),
scans-fixed-SIDE (each level as a model of its own) and zoo/data/scans-slim: digits that took no
part in training.
"""

import dataclasses
import itertools
import os
import pathlib

# One thread, so that the sums are the same however many cores there are.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from sklearn.linear_model import LogisticRegression

from variants import sources
from variants.tasks import Split
from ensembles.tasks import Scans
from slim import network
from slim.network import LEVELS, STAGES
from training.adam import adam, moments_of
from training.cards import session, write_card

ZOO = pathlib.Path(__file__).resolve().parent
SEED, EPOCHS, BATCH, RATE = 7, 30, 64, 3e-3
TRAINED, DECIDED, SHIPPED = 7000, 1500, 400
VIEWS = 8  # of each digit that the decision is learned from, and that is asked
WIDEST = len(LEVELS) - 1
TOLERANCE = 2e-4  # of the digits: three in the 12000 views that the decision is learned from

CONFIGURATION = """# {about}
name: "{name}"
platform: "onnxruntime_onnx"
max_batch_size: 32
input {{ name: "image" data_type: TYPE_FP32 dims: [ 3, {side}, {side} ] }}
output {{ name: "probabilities" data_type: TYPE_FP32 dims: [ 10 ] }}
output {{ name: "label" data_type: TYPE_INT64 dims: [ 1 ] }}
dynamic_batching {{ }}
"""


class Digits(Scans):
    """Scans' questions at the largest level's side, and fewer of them damaged badly."""

    SHAPE = (1, LEVELS[-1].side, LEVELS[-1].side)

    def parts(self, rng):
        """To fit the weights, to fit the decision, and to be asked."""
        images, labels = sources.written_digits()
        whole = Split(list(images), labels)
        order = rng.permutation(len(labels))
        return [whole.take(rows) for rows in np.split(order, [TRAINED, TRAINED + DECIDED])]

    def pixels(self, split, rng):
        """[n, side, side] in [0, 1], each damaged anew."""
        strengths = np.where(rng.random(len(split)) < 0.7, rng.uniform(0, 0.25, len(split)),
                             rng.uniform(0.25, 0.8, len(split)))
        views = [self._view(image, strength, rng)
                 for image, strength in zip(split.recordings, strengths)]
        return np.clip(np.stack(views), 0, 1).astype(np.float32)

    def views_of(self, split, rng):
        """Pixels and labels of several views of each."""
        return (np.concatenate([self.pixels(split, rng) for _ in range(VIEWS)]),
                np.tile(split.labels, VIEWS))


def cross_entropy(scores, labels):
    return -jax.nn.log_softmax(scores)[jnp.arange(len(labels)), labels].mean()


def loss(params, pixels, labels, paths):
    """The mean over the paths, each a level by stage."""
    return sum(cross_entropy(scores, labels) for path in paths for scores in network.logits(
        params, network.at_side(pixels, path[0]), path)) / len(paths)


def train(digits, split, rng):
    """Each step: the narrowest, the widest, one in between, and one that widens after its exit."""
    params = network.init(rng)
    moments = moments_of(params)
    wider = list(itertools.combinations(range(len(LEVELS)), 2))
    updates = []
    for i, path in enumerate(wider):
        paths = ((0,) * len(STAGES), (WIDEST,) * len(STAGES), (1 + i % (WIDEST - 1),) * len(STAGES),
                 path)
        updates.append(jax.jit(lambda params, moments, rate, step, pixels, labels, p=paths: _update(
            p, params, moments, rate, step, pixels, labels)))
    steps = len(split) // BATCH
    for epoch in range(EPOCHS):
        part = split.take(rng.permutation(len(split))[:steps * BATCH])
        pixels, losses = digits.pixels(part, rng), []
        for i in range(steps):
            step, rows = epoch * steps + i, slice(i * BATCH, (i + 1) * BATCH)
            rate = RATE * 0.5 * (1 + np.cos(np.pi * step / (steps * EPOCHS)))
            params, moments, value = updates[step % len(updates)](
                params, moments, rate, step + 1.0, pixels[rows], part.labels[rows])
            losses.append(value)
        print(f"  epoch {epoch + 1} of {EPOCHS}, loss {np.mean(losses):.4f}", flush=True)
    return jax.tree_util.tree_map(np.asarray, params)


def _update(paths, params, moments, rate, step, pixels, labels):
    value, gradient = jax.value_and_grad(loss)(params, pixels, labels, paths)
    return (*adam(params, moments, gradient, rate, step), value)


@dataclasses.dataclass
class Answers:
    """What a level says at its exit and at its end of the same digits, and how sure it is."""

    exit_right: np.ndarray
    end_right: np.ndarray
    sureness: np.ndarray

    @classmethod
    def of(cls, params, pixels, labels, level):
        at_exit, at_end = network.logits(params, network.at_side(pixels, level),
                                         (level,) * len(STAGES))
        right = [np.asarray(scores).argmax(axis=1) == labels for scores in (at_exit, at_end)]
        return cls(*right, np.asarray(network.sureness(at_exit)))


def decide(answers):
    """(weights, bias) of the logistic regression, and the lowest threshold at which as many digits
    are right as without exits, but for TOLERANCE; nothing is lost where the end is wrong too."""
    fit = LogisticRegression(max_iter=2000).fit(answers.sureness,
                                                answers.exit_right | ~answers.end_right)
    sure = fit.predict_proba(answers.sureness)[:, 1]
    order = np.argsort(-sure)
    gained = np.cumsum(answers.exit_right[order].astype(int) - answers.end_right[order])
    harmless = np.flatnonzero(gained >= -TOLERANCE * len(gained))
    threshold = float(sure[order[harmless[-1]]]) if len(harmless) else 1.0
    return fit.coef_[0], fit.intercept_[0], round(min(threshold + 1e-4, 1), 4)


def measured(stages, pixels, labels, level, threshold):
    """What the ONNX files score, with exits and without, as a server runs them."""
    width = np.array([level], np.int64)
    image = np.asarray(network.at_side(pixels, level))[:, None].repeat(3, 1)
    said, sure, features = stages[0].run(["label", "confidence", "features"],
                                         {"image": image, "width": width})
    end = stages[1].run(["label"], {"features": features, "width": width})[0][:, 0]
    exits = sure[:, 0] >= threshold
    both = np.where(exits, said[:, 0], end)
    share = lambda found: round(float((found == labels).mean()), 4)
    wider = [share(np.where(exits, said[:, 0], stages[1].run(
        ["label"], {"features": features, "width": np.array([w])})[0][:, 0]))
        for w in range(level + 1, len(LEVELS))]
    return {"accuracy": share(end), "accuracy_with_exits": share(both),
            "accuracy_at_exit": share(said[:, 0]), "exits": round(float(exits.mean()), 4),
            "accuracy_widened": wider}


def write_folder(name, about, level, **values):
    folder = ZOO / "repository" / name
    (folder / "1").mkdir(parents=True, exist_ok=True)
    configuration = CONFIGURATION.format(name=name, about=about, side=LEVELS[level].side)
    for key, value in values.items():
        configuration += f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'
    (folder / "config.pbtxt").write_text(configuration)
    return folder


def card(level, **values):
    return {"task": "badly scanned handwritten digits, to one of ten",
            "side": LEVELS[level].side, "channels": LEVELS[level].share,
            "data": Scans.SOURCE, "licence": "Apache-2.0", "command": "zoo/train_slim.py",
            "seed": SEED, **values}


def write(params, decisions, decided, asked):
    """`decided`, `asked`: pixels and labels. Levels widen where that cost nothing of the former."""
    base = f"scans-slim-{LEVELS[-1].side}"
    weights, biases, thresholds = map(list, zip(*decisions))
    models = [network.write_stage(f"scans-slim-{stage + 1}", params, stage, (weights, biases))
              for stage in range(len(STAGES))]
    stages = [session(model.SerializeToString()) for model in models]
    for level, what in enumerate(LEVELS):
        percent = f"{what.share:.0%} of the channels, {what.side} by {what.side} pixels"
        values = {"width": level, "exit_above": thresholds[level]}
        if level < WIDEST:
            before = measured(stages, *decided, level, thresholds[level])
            harmless = min(before["accuracy_widened"]) >= before["accuracy_with_exits"]
            values |= {"weights_of": base, "widen": "true" if harmless else "false"}
        folder = write_folder(f"scans-slim-{what.side}", f"digits on scans: {percent}", level,
                              **values)
        scores = measured(stages, *asked, level, thresholds[level])
        write_card(folder / "card.json", card(level, exit_above=thresholds[level],
                                              test_samples=len(asked[1]), **scores))
        print(f"{folder.name}: {scores}", flush=True)
        fixed = write_folder(f"scans-fixed-{what.side}",
                             f"scans-slim-{what.side} as a model of its own, without exits", level)
        onnx.save(network.write_level(fixed.name, params, level), fixed / "1" / "model.onnx")
        write_card(fixed / "card.json", card(level, test_samples=len(asked[1]),
                                             accuracy=scores["accuracy"]))
    for stage, model in enumerate(models):
        name = "model.onnx" if stage == 0 else f"stage-{stage + 1}.onnx"
        onnx.save(model, ZOO / "repository" / base / "1" / name)


def main():
    rng = np.random.default_rng(SEED)
    digits = Digits()
    fitting, deciding, asked = digits.parts(rng)
    params = train(digits, fitting, rng)
    rng = np.random.default_rng(SEED + 1)
    decided = digits.views_of(deciding, rng)
    decisions = [decide(Answers.of(params, *decided, level)) for level in range(len(LEVELS))]
    pixels, labels = digits.views_of(asked, rng)
    write(params, decisions, decided, (pixels, labels))
    folder = ZOO / "data" / "scans-slim"
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "test-pixels.npy", np.round(pixels[:SHIPPED] * 255).astype(np.uint8))
    np.save(folder / "test-labels.npy", labels[:SHIPPED].astype(np.int64))


if __name__ == "__main__":
    main()
