#!/usr/bin/env python3
"""The forecast of a load: trained by the shipped command, tried on the days that it has not seen.

Trains on the first two thirds of the published trace, then runs the network as the server does beside the forecasts
that need no training (`fermata forecast`): on the rest of the trace, on the same divided by 8, which is what the
paper's excerpts are, and on these excerpts, which lie in the rest. Errors are symmetric mean absolute percentage
errors. Needs the published trace, which is not part of the project (FERMATA_IPA_DATA).

    bench/forecasts.py --out load.onnx [--epochs 6] [--binary build/fermata]
    bench/forecasts.py --out load.onnx --trained summary.json
"""

import argparse
import csv
import json
import pathlib
import re
import subprocess
import tempfile

import pipeline
import record

ROOT = pathlib.Path(__file__).resolve().parent.parent
TRACE = pipeline.DATA / "workloads" / "twitter_2021-08_rps.csv"
DAMPING = 8  # of the paper's excerpts
LONGEST = 604_800  # seconds of a trace that the command takes: the last seven days
EXCERPTS = ("bursty", "steady_low", "steady_high", "fluctuating")


def train(given):
    """What the command says of the network that it wrote."""
    command = [given.python, "-m", "fermata_train", "forecast", TRACE, "--out", given.out, "--epochs", str(given.epochs)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT / "python")
    return json.loads(done.stdout)


def tried(given, loads, every):
    """Errors of the forecasts, one in so many seconds."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(map(str, loads)) + "\n")
        file.flush()
        done = subprocess.run([given.binary, "forecast", file.name, "--model", given.out, "--every", str(every)],
                              capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    return found | {"model_us": float(re.search(r"(\S+) us a forecast", done.stderr)[1])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "build/fermata")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the network, .onnx")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--python", default="/usr/bin/python3", help="with PyTorch")
    parser.add_argument("--trained", type=pathlib.Path, help="what an earlier run of the command said of that network")
    given = parser.parse_args()
    given.out = given.out.resolve()
    if not TRACE.exists():
        raise SystemExit(f"no {TRACE}; FERMATA_IPA_DATA names the folder")
    trained = json.loads(given.trained.read_text()) if given.trained else train(given)
    trained["command"] = f"python -m fermata_train forecast {TRACE.name} --out load.onnx --epochs {trained['epochs']}"
    loads = [int(line) for line in TRACE.read_text().split()[1:]]
    loads = [load for load in loads if load > 0]
    unseen = len(loads) - trained["held_out"]["seconds"]
    days = loads[max(unseen, len(loads) - LONGEST):]
    rows = {"unseen": tried(given, days, 20),
            f"unseen, divided by {DAMPING}": tried(given, [load // DAMPING for load in days if load >= DAMPING], 20)}
    for name in EXCERPTS:
        own = [int(row["rps"]) for row in csv.DictReader((TRACE.parent / f"{name}.csv").open())]
        rows[name] = tried(given, own, 1)
    for name, row in rows.items():
        print(name, {method: round(own["smape_percent"], 2) for method, own in row["methods"].items()},
              f"{row['model_us']:.0f} us", flush=True)
    record.write("forecasts", {"trained": trained, "rows": rows})


if __name__ == "__main__":
    main()
