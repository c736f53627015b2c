#!/usr/bin/env python3
"""Trains the demo's object detector on scenes that it draws itself.

    make zoo

Writes zoo/repository/shapes-SIDE/1/model.onnx with config.pbtxt, labels.txt and card.json for each
input size, all of them the same weights, and zoo/data/shapes: scenes and where their shapes lie
(boxes.json), which took no part in training.
"""

import json
import os
import pathlib

# One thread, so that the sums are the same however many cores there are.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import jax
import numpy as np
import onnx
from PIL import Image

from shapes import detector
from shapes.precision import OVERLAP, mean_average_precision
from shapes.scenes import CLASSES, resized, scene, view
from training.adam import adam, moments_of
from training.cards import session, write_card

ZOO = pathlib.Path(__file__).resolve().parent
SIDES = (96, 160, 256)
VIEW = 128  # pixels of what is trained on
SCENES, STEPS, BATCH, RATE = 3000, 8000, 16, 3e-3
HELD_OUT, SHOWN = 300, 24
SEED = 7

CONFIGURATION = """# {classes} on cluttered ground, {side} by {side} pixels
name: "shapes-{side}"
platform: "onnxruntime_onnx"
max_batch_size: 16
input {{ name: "image" data_type: TYPE_FP32 dims: [ 3, {side}, {side} ] }}
output {{ name: "boxes" data_type: TYPE_FP32 dims: [ {most}, 4 ] }}
output {{ name: "scores" data_type: TYPE_FP32 dims: [ {most} ] }}
output {{ name: "classes" data_type: TYPE_INT64 dims: [ {most} ] }}
dynamic_batching {{ }}
"""


def train(rng):
    scenes = [scene(rng) for _ in range(SCENES)]
    params = detector.init(rng)
    moments = moments_of(params)

    @jax.jit
    def update(params, moments, rate, step, *batch):
        value, gradient = jax.value_and_grad(detector.loss)(params, *batch)
        return (*adam(params, moments, gradient, rate, step), value)

    losses = []
    for step in range(STEPS):
        views = [view(rng, *scenes[i], VIEW) for i in rng.integers(0, SCENES, BATCH)]
        pixels = np.stack([v[0] for v in views])
        rate = RATE * 0.5 * (1 + np.cos(np.pi * step / STEPS)) * min(1, (step + 1) / 100)
        params, moments, value = update(params, moments, rate, step + 1.0, pixels,
                                        *detector.targets([v[1] for v in views], VIEW))
        losses.append(float(value))
        if (step + 1) % 100 == 0:
            print(f"  step {step + 1} of {STEPS}, loss {np.mean(losses[-100:]):.3f}", flush=True)
    return jax.tree_util.tree_map(np.asarray, params)


def measure(model, side, scenes):
    run, answers = session(model.SerializeToString()).run, []
    for image, _ in scenes:
        pixels = resized(image, side).astype(np.float32).transpose(2, 0, 1)[None] / 255
        answers.append([v[0] for v in run(["boxes", "scores", "classes"], {"image": pixels})])
    return mean_average_precision(answers, [rows for _, rows in scenes], len(CLASSES))


def write(params, side, held_out):
    folder = ZOO / "repository" / f"shapes-{side}"
    (folder / "1").mkdir(parents=True, exist_ok=True)
    model = detector.write(params, folder.name, side)
    onnx.save(model, folder / "1" / "model.onnx")
    (folder / "labels.txt").write_text("".join(f"{c}\n" for c in CLASSES))
    (folder / "config.pbtxt").write_text(CONFIGURATION.format(
        classes=", ".join(CLASSES), side=side, most=detector.MOST))
    mean, by_class = measure(model, side, held_out)
    write_card(folder / "card.json", {
        "pictures": len(held_out), "overlap": OVERLAP, "mean_average_precision": round(mean, 4),
        "average_precision": {c: round(p, 4) for c, p in zip(CLASSES, by_class)}})
    print(f"{folder.name}: mean average precision {mean:.3f}", flush=True)


def main():
    params = train(np.random.default_rng(SEED))
    rng = np.random.default_rng(SEED + 1)
    held_out = [scene(rng) for _ in range(HELD_OUT)]
    for side in SIDES:
        write(params, side, held_out)
    folder = ZOO / "data" / "shapes"
    folder.mkdir(parents=True, exist_ok=True)
    boxes = {}
    for i, (image, rows) in enumerate(held_out[:SHOWN]):
        name = f"scene-{i:02}.jpg"
        Image.fromarray(image).save(folder / name, quality=92)
        boxes[name] = [{"class": CLASSES[int(r[0])], "box": [round(float(v), 4) for v in r[1:]]}
                       for r in rows]
    lines = [f"  {json.dumps(name)}: {json.dumps(rows)}" for name, rows in boxes.items()]
    (folder / "boxes.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
