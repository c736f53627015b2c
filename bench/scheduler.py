#!/usr/bin/env python3
"""The scheduler alone (Symphony, figure 11): how much one thread takes in, at
which lag, and what a request costs as threads, models and workers grow.

    bench/scheduler.py [--binary build/fermata] [--seconds 1] [--threads 1,2]

The first part runs on the clock and wants a quiet machine. The second counts
instructions under valgrind, on a virtual clock, and does not care.
"""

import argparse
import json
import pathlib
import re
import subprocess

import drawings
import plot

ROOT = pathlib.Path(__file__).resolve().parent.parent
RATES = [0.5e6, 1e6, 2e6, 3e6, 4e6, 5e6, 6e6, 7e6, 8e6]
# models, model threads, workers; the first is what the others are compared with
COSTS = [(16, 1, 4000), (1, 1, 4000), (100, 1, 4000), (1000, 1, 4000), (16, 2, 4000),
         (16, 4, 4000), (16, 1, 16000)]


def bench(binary, *arguments, under=()):
    done = subprocess.run([*under, binary, "bench", "scheduler", *map(str, arguments)], text=True,
                          capture_output=True, check=True)
    return json.loads(done.stdout), done.stderr


def lag_by_rate(binary, threads, seconds):
    rows = []
    for rate in RATES:
        row, _ = bench(binary, "--models", 16, "--threads", threads, "--rate", rate, "--seconds",
                       seconds)
        rows.append(row)
        if row["handled_rps"] < 0.9 * rate:
            break
    return rows


def counted(binary, seconds, models, threads, workers):
    """Requests and instructions of one run, everything included."""
    row, log = bench(binary, "--models", models, "--threads", threads, "--workers", workers,
                     "--rate", 2e6, "--seconds", seconds, "--virtual-turn-us", 5,
                     under=["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"])
    return row["requests"], int(re.search(r"Collected : (\d+)", log)[1])


def cost(binary, models, threads, workers):
    """Instructions a request: of two runs of different length, so that the start cancels out."""
    (n1, i1), (n2, i2) = (counted(binary, s, models, threads, workers) for s in (0.1, 0.2))
    return {"models": models, "threads": threads, "workers": workers,
            "instructions_per_request": (i2 - i1) / (n2 - n1)}


def draw(lags, costs):
    document = {"lag": {str(threads): rows for threads, rows in lags.items()}, "cost": costs}
    return plot.save("scheduler", drawings.scheduler(document), document)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "build/fermata")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--threads", default="1,2", help="model threads of the first part")
    options = parser.parse_args()
    lags = {}
    for threads in map(int, options.threads.split(",")):
        lags[threads] = lag_by_rate(options.binary, threads, options.seconds)
        print(plot.table([f"{threads} model threads, 1/s", "median lag, us", "p99, us", "bad, %"],
                         [[f"{row['handled_rps']:.0f}", row["lag_p50_us"], row["lag_p99_us"],
                           100 * row["bad_rate"]] for row in lags[threads]]), flush=True)
    costs = [cost(options.binary, *c) for c in COSTS]
    base = costs[0]["instructions_per_request"]
    print(plot.table(["models", "threads", "workers", "instructions", "ratio"],
                     [[c["models"], c["threads"], c["workers"],
                       round(c["instructions_per_request"]),
                       c["instructions_per_request"] / base] for c in costs]))
    print(draw(lags, costs))


if __name__ == "__main__":
    main()
