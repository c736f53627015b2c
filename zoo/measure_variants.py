#!/usr/bin/env python3
"""Measures the applications' variants and writes the tables in zoo/README.md.

    zoo/measure_variants.py               with build/fermata
    zoo/measure_variants.py menu          one application; the tables of the others stay

Accuracy is that of ONNX Runtime on the committed files; evidence alone answers with the
class of most of the five nearest training examples; latency is fermata profile's, one thread.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np

from variants.tasks import TASKS
from training.cards import answers, neighbours_answers

ZOO = pathlib.Path(__file__).resolve().parent
BATCHES = ("1", "8", "16")
START, END = "<!-- measured: zoo/measure_variants.py -->\n", "<!-- end of measured -->\n"


def load(application, part):
    folder = ZOO / "data" / application
    return np.load(folder / f"{part}-features.npy"), np.load(folder / f"{part}-labels.npy")


def variants(application):
    """Those of the repository, the least accurate first."""
    cards = (json.loads(path.read_text())
             for path in (ZOO / "repository").glob(f"{application}-*/card.json"))
    return sorted(cards, key=lambda card: card["accuracy"])


def profile(fermata, name):
    """The latencies, without a profile.json left in the repository."""
    with tempfile.TemporaryFile("w+") as out:
        subprocess.run([fermata, "profile", ZOO / "repository" / name, "--no-write",
                        "--max-batch", BATCHES[-1], "--runs", "50"], check=True, stdout=out)
        out.seek(0)
        return json.load(out)


def row(name, size, calibration, stream, recall, latencies):
    recalls = f"{min(recall):.2f} to {max(recall):.2f}"
    return f"| {name} | {size} | {calibration:.3f} | {stream:.3f} | {recalls} | " + " | ".join(
        latencies) + " |\n"


def table(fermata, application):
    train, stream = load(application, "train"), load(application, "stream")
    asked, labels = load(application, "calibration")
    lines = ["| | size | accuracy | on the stream | recall by class | "
             + " | ".join(f"batch of {size}" for size in BATCHES) + " |\n",
             "|---" * (5 + len(BATCHES)) + "|\n"]
    found = neighbours_answers(*train, asked)
    evidence = np.mean(found == labels)
    recall = [np.mean(found[labels == c] == c) for c in range(labels.max() + 1)]
    streamed = np.mean(neighbours_answers(*train, stream[0]) == stream[1])
    lines.append(row("evidence alone", f"{len(train[1])} examples", evidence, streamed, recall,
                     [""] * len(BATCHES)))
    best = best_streamed = 0
    for card in variants(application):
        model = ZOO / "repository" / card["name"] / "1" / "model.onnx"
        on_stream = np.mean(answers(model, {"features": stream[0]}) == stream[1])
        batches = profile(fermata, card["name"])["batches"]
        lines.append(row(f"`{card['name']}`", f"{model.stat().st_size / 1024:.0f} KB",
                         card["accuracy"], on_stream, card["recall"],
                         [f"{batches[size]['p50_ms']:.2f} ms" for size in BATCHES]))
        best, best_streamed = max(best, card["accuracy"]), max(best_streamed, on_stream)
    lines.append(f"\nThe best variant is {100 * (best - evidence):.1f} points more accurate than the "
                 f"evidence alone, {100 * (best_streamed - streamed):.1f} on the stream.\n")
    return "".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(TASKS), metavar="NAME", help="an application")
    parser.add_argument("--fermata", default=ZOO.parent / "build" / "fermata")
    arguments = parser.parse_args()
    readme = ZOO / "README.md"
    before, rest = readme.read_text().split(START)
    measured, after = rest.split(END)
    tables = dict(part.split("\n\n", 1) for part in measured.strip().split("### ")[1:])
    tables |= {name: table(arguments.fermata, name) for name in arguments.names}
    found = "\n".join(f"### {name}\n\n{tables[name].strip()}\n" for name in TASKS if name in tables)
    readme.write_text(f"{before}{START}\n{found}\n{END}{after}")


if __name__ == "__main__":
    main()
