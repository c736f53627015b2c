"""What the runs of bench/streams.py have in common: DNNs, methods, settings, what is asked of the rows."""

import itertools
import math

SIDES = range(128, 640, 32)
SLOS, RATES = (75, 100, 150), (15, 25)
LOW, MIDDLE, HIGH = 0, 7, 15
MOST_BATCH = 12
METHODS = {"fermata": {}, "low": {"mode": "fixed", "variant": LOW, "scheduler": "edf"},
           "middle": {"mode": "fixed", "variant": MIDDLE, "scheduler": "edf"},
           "high": {"mode": "fixed", "variant": HIGH, "scheduler": "edf"},
           "DNN alone": {"mode": "dnn-alone", "variant": MIDDLE}}
# Figure 16's, in virtual time: half or three quarters of every objective are the server's, and clients send what
# their link bears, or what it brings in the rest.
DIVIDED = {f"{name}, {share:.0%}": {"mode": mode, "compute_share": share}
           for name, mode in (("DA_bw", "bandwidth-alone"), ("DA_slo", "objective-alone")) for share in (0.5, 0.75)}
# Table 2's clients: objective in ms and frames a second.
MIXED = {4: [(75, 15), (100, 15), (150, 25), (75, 25)],
         8: [(75, 15), (100, 15), (150, 15), (75, 15), (100, 25), (150, 25), (75, 25), (100, 25)]}
MEMORY_MB, LOAD_MS = 10, 175  # of a DNN, where workers do not hold all: the middle of what the paper measured
INFEASIBLE = (75, 25, 8)  # more than two workers of the smallest DNN serve in time


def each_ms(side):
    return 2.5 + 8.5 * (side / 416) ** 2.2


def variant(side):
    return {"name": f"detect-{side}", "input_size": side,
            "accuracy": round(0.44 * (1 - 1.5 * math.exp(-side / 130)), 4),
            "request_kb": round(side * side * 3 / (4.5 + side / 150) / 1000, 3),
            "latency_ms": {"table": {str(b): round(20 + b * each_ms(side), 3)
                                     for b in range(1, MOST_BATCH + 1)}}}


VARIANTS = [variant(side) for side in SIDES]
ACCURACY = {v["input_size"]: v["accuracy"] for v in VARIANTS}


def clients_of(count, slo, rate):
    return MIXED[count] if slo == "mixed" else [(slo, rate)] * count


def settings(counts=(1, 2, 4, 8)):
    yield from itertools.product(SLOS, RATES, counts)


def judge(rows):
    """What is asked of the rows: the settings where it does not hold."""
    by = {(r["trace"], r["slo_ms"], r["rate"], r["clients"], r["method"]): r for r in rows}
    wrong = {"misses": [], "than middle": [], "than low": []}
    for r in (r for r in rows if r["method"] == "fermata"):
        key = (r["trace"], r["slo_ms"], r["rate"], r["clients"])
        most = 0.015 if r["trace"] == "lte" else 0.01
        if key[1:] != INFEASIBLE and r["slo_ms"] != "mixed" and r["miss_rate"] > most:
            wrong["misses"].append([*key, r["miss_rate"]])
        middle, low = by.get((*key, "middle")), by.get((*key, "low"))
        if middle and middle["miss_rate"] > 0.01 and r["miss_rate"] >= middle["miss_rate"]:
            wrong["than middle"].append([*key, r["miss_rate"], middle["miss_rate"]])
        if low and r["accuracy"] <= low["accuracy"]:
            wrong["than low"].append([*key, r["accuracy"], low["accuracy"]])
    return wrong
