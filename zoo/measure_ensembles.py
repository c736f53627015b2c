#!/usr/bin/env python3
"""Measures the ensembles and writes the tables in zoo/README.md.

    .deps/train/bin/python zoo/measure_ensembles.py

On the committed test data: what every model and ensemble scores against the labels, how often
the model answers as the ensemble does, and the processor time of ONNX Runtime's one thread.
"""

import argparse
import json
import time

import numpy as np

from train_ensembles import (AGREED, AVERAGED, MODELS, STACKED, TASKS, TOLERANCE, ZOO, load,
                             outputs_of)
from training.cards import session

START, END = "<!-- measured: zoo/measure_ensembles.py -->\n", "<!-- end of measured ensembles -->\n"
BATCHES, RUNS = (1, 8), 200


def latencies(name, features):
    """Milliseconds of the processor, which a busy machine does not change much; the median, by
    batch size."""
    ready = session(ZOO / "repository" / name / "1" / "model.onnx")
    medians = []
    for size in BATCHES:
        taken = []
        for i in range(RUNS):
            part = features[(i * size) % (len(features) - size):][:size]
            start = time.process_time()
            ready.run(None, {"features": part})
            taken.append(time.process_time() - start)
        medians.append(1e3 * float(np.median(taken)))
    return medians


def same(task, found, truth, tolerance=TOLERANCE):
    """Query by query: the class, or within the tolerance."""
    if task.CLASSES:
        return found.argmax(axis=1) == (truth if truth.ndim == 1 else truth.argmax(axis=1))
    return np.abs(found - truth)[:, 0] <= tolerance


def table(title, task, models, ensemble, predictor, features, labels):
    """`ensemble`: its outputs, [n, width]."""
    lines = [f"### {title}\n\n", "| | size | right by the label | as the ensemble | "
             + " | ".join(f"batch of {size}" for size in BATCHES) + " |\n", "|---" * 6 + "|\n"]
    agree, spent = [], np.zeros(len(BATCHES))
    for name in models:
        found, taken = outputs_of(name, features), latencies(name, features)
        agree.append(same(task, found, ensemble, AGREED))
        spent += taken
        lines.append(row(f"`{name}`", name, same(task, found, labels).mean(), agree[-1].mean(), taken))
    lines.append(row("the ensemble", None, same(task, ensemble, labels).mean(), None, spent))
    if (ZOO / "repository" / predictor / "1" / "model.onnx").exists():
        taken = latencies(predictor, features)
        lines.append(row(f"`{predictor}`", predictor, None, None, taken))
        share = 100 * taken[0] / spent[0]
        lines.append(f"\nThe predictor takes {share:.1f} % of the ensemble's time for a query. ")
    count = np.sum(agree, axis=0)
    lines.append(f"For {100 * (count == len(models)).mean():.0f} % of the queries any of the models "
                 f"says what the ensemble does, for {100 * (count == 0).mean():.0f} % none does.\n")
    return "".join(lines)


def row(title, model, right, agree, taken):
    file = model and ZOO / "repository" / model / "1" / "model.onnx"
    cells = [title, f"{file.stat().st_size / 1024:.0f} KB" if file else "",
             "" if right is None else f"{right:.3f}", "" if agree is None else f"{agree:.3f}",
             *(f"{ms:.2f} ms" for ms in taken)]
    return "| " + " | ".join(cells) + " |\n"


def tables():
    scans, count = TASKS["scans"], TASKS["count"]
    features, labels = load(scans, "test")
    outputs = {name: outputs_of(name, features) for name in MODELS["scans"]}
    mean = np.mean([outputs[name] for name in AVERAGED], axis=0)
    yield table("`scans`, averaged", scans, AVERAGED, mean, "scans-averaged-difficulty", features, labels)
    stacked = outputs_of(STACKED, np.concatenate(list(outputs.values()), axis=1))
    yield table("`scans`, stacked", scans, MODELS["scans"], stacked, "scans-stacked-difficulty",
                features, labels)
    features, labels = load(count, "test")
    weights = json.loads((ZOO / "data" / "count" / "weights.json").read_text())
    weighted = sum(w * outputs_of(name, features) for name, w in weights.items())
    yield table("`count`, weighted average", count, MODELS["count"], weighted,
                "count-weighted-difficulty", features, labels)


def main():
    argparse.ArgumentParser(description=__doc__,
                            formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    readme = ZOO / "README.md"
    before, rest = readme.read_text().split(START)
    after = rest.split(END)[1]
    readme.write_text(f"{before}{START}\n" + "\n".join(tables()) + f"\n{END}{after}")


if __name__ == "__main__":
    main()
