"""Bandwidth traces for streams, in Mbit/s: those of a folder, or made ones like them.

    traces = streams_traces.load(folder)     # {"lte": ([mbps, ...], hold_s), ...}
"""

import csv
import math
import pathlib
import random

# File names of the paper's authors; one value a second, but for the synthetic one.
FILES = {"lte": ("lte_upload_trace.csv", 1), "wifi": ("wifi_trace.csv", 1), "synthetic": ("synthetic_trace.csv", 20)}


def made(kind, seconds=200, seed=1):
    """Log-normal around a median, each second drawn to the last one; mobile links fall now and then."""
    if kind == "synthetic":
        return [20, 15, 10, 7.5, 10, 15, 20]
    draw = random.Random(f"{kind} {seed}")
    median, spread, memory, fall = (14.5, 0.45, 0.7, 0.06) if kind == "lte" else (53, 0.2, 0.5, 0)
    state, values = 0.0, []
    for _ in range(seconds):
        state = memory * state + math.sqrt(1 - memory**2) * draw.gauss(0, spread)
        factor = draw.uniform(0.25, 0.5) if draw.random() < fall else 1
        values.append(round(min(max(median * math.exp(state) * factor, 2.5), 80), 3))
    return values


def load(folder=None):
    traces = {}
    for kind, (file, hold_s) in FILES.items():
        path = pathlib.Path(folder or ".") / file
        if folder and path.exists():
            with path.open() as rows:
                traces[kind] = ([float(row["mbps"]) for row in csv.DictReader(rows)], hold_s)
        else:
            traces[kind] = (made(kind), hold_s)
    return traces
