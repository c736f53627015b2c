#!/usr/bin/env python3
"""The default beside every other policy for variants, from one worker to many, in virtual time.

    python3 bench/variants_grid.py              # bench/results/variants_grid.{json,png}
    python3 bench/variants_grid.py --record     # first measures all variants that the zoo has
    python3 bench/variants_grid.py --workers 1 64 --rates 75 --penalties step

The zoo's three applications with all of their variants, slowed as in the other figures: 40 requests
a second are what the most accurate variants bear on one worker. Every other policy runs with a
window of 100 ms and without one, and the best of these counts at each point, with the same requests.

Who cannot serve earns nothing. A policy whose decisions take more processor time than the run has
virtual time, but LEAST_CPU_S in any case, is not serving; nor is one that needs more than MEMORY of
memory for its queue. And where lateness costs little or nothing, who lets its queue grow for ever
looks best in any run that ends: half of the answers must come within KEEPS_UP SLOs. The record says
who earned nothing, and why. Exits with 1 where the default is below LEAST of the best other policy,
or below MEAN on average.
"""

import argparse
import collections
import concurrent.futures
import itertools
import json
import math
import os
import statistics
import sys

import drawings
import plot
import variants_figures
import variants_zoo

WORKERS = (1, 2, 4, 8, 16, 32, 64)
RATES = (20, 75, 300)  # requests a second a worker
PENALTIES = {"none": "none", "constant": {"constant": 0.2}, "step": "step", "linear": "linear",
             "sigmoid": "sigmoid"}
RIVALS = tuple(itertools.product(variants_figures.POLICIES[1:], (100, 0)))  # and their window, ms
LEAST, MEAN = 0.99, 1.03
REQUESTS, LEAST_S, MOST_S, WARMUP_S = 4000, 1, 40, 1
SLO_MS, KEEPS_UP = 150, 10
LEAST_CPU_S, MEMORY = 8, 3 << 30


def scenario(records, policy, window_ms, workers, rate, penalty, seed):
    seconds = min(MOST_S, max(LEAST_S, REQUESTS / (workers * rate)))
    document = variants_zoo.scenario(
        records, policy, 1, slowed=variants_zoo.slowed(records), seed=seed, warmup=WARMUP_S,
        seconds=seconds, slo_ms=SLO_MS, penalty=PENALTIES[penalty], workers=workers)
    return document | {"window_ms": window_ms, "rate_rps": workers * rate}


def measure(records, workers, rate, penalty, seeds):
    """By policy, the mean over the seeds; and why a policy earned nothing in one of them."""
    failed = {}

    def utility(name, policy, window, seed):
        document = scenario(records, policy, window, workers, rate, penalty, seed)
        virtual_s = document["warmup_s"] + document["duration_s"]
        try:
            found = variants_zoo.simulate(document, max(LEAST_CPU_S, math.ceil(virtual_s)), MEMORY)
        except variants_zoo.Exhausted as exhausted:
            failed[name] = str(exhausted)
            return 0
        if found["p50_ms"] > KEEPS_UP * SLO_MS:
            failed[name] = "late"
            return 0
        return found["utility"]

    names = {"fermata": ("fermata", 100)} | {f"{p}, {window} ms": (p, window) for p, window in RIVALS}
    return {name: statistics.mean(utility(name, *which, seed) for seed in range(1, seeds + 1))
            for name, which in names.items()}, failed


def best_other(utilities):
    return max((u, p) for p, u in utilities.items() if p != "fermata")


def ratio(utilities):
    other = best_other(utilities)[0]
    return utilities["fermata"] / other if other > 0 else math.inf


def summary(points):
    beside = [p["utility"] for p in points if best_other(p["utility"])[0] > 0]
    ratios = [ratio(utilities) for utilities in beside] or [math.inf]
    return {"points": len(points), "no_other_serves": len(points) - len(beside),
            "least": min(ratios), "mean": statistics.mean(ratios),
            "below_least": sum(r < LEAST for r in ratios),
            "best_other": dict(collections.Counter(best_other(u)[1] for u in beside))}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="measure the variants first")
    parser.add_argument("--seeds", type=int, default=1, help="of each point")
    parser.add_argument("--workers", type=int, nargs="*", default=WORKERS)
    parser.add_argument("--rates", type=float, nargs="*", default=RATES)
    parser.add_argument("--penalties", nargs="*", choices=PENALTIES, default=list(PENALTIES))
    parser.add_argument("--together", type=int, default=os.cpu_count(), help="runs at a time")
    parser.add_argument("--name", default="variants_grid", help="of the record; '' keeps none")
    arguments = parser.parse_args()
    if arguments.record:
        variants_zoo.record_all(variants_zoo.ALL_VARIANTS, variants_zoo.ALL_RECORDS)
    records = variants_zoo.load(variants_zoo.ALL_RECORDS)
    keys = list(itertools.product(arguments.workers, arguments.rates, arguments.penalties))
    points = []
    with concurrent.futures.ThreadPoolExecutor(arguments.together) as pool:
        measured = pool.map(lambda key: measure(records, *key, arguments.seeds), keys)
        for (workers, rate, penalty), (utilities, failed) in zip(keys, measured):
            points.append({"workers": workers, "rate": rate, "penalty": penalty,
                           "utility": utilities, "failed": failed})
            print(f"{workers:3} workers, {rate:g}/s each, {penalty}: {ratio(utilities):.4f} of "
                  f"{best_other(utilities)[1]} ({best_other(utilities)[0]:.4f})", flush=True)
    totals = summary(points)
    print(json.dumps(totals, indent=1))
    if arguments.name:
        document = {"seeds": arguments.seeds, "summary": totals, "points": points}
        print(plot.save(arguments.name, drawings.DRAWN["variants_grid"](document), document))
    if totals["least"] < LEAST or totals["mean"] < MEAN:
        sys.exit(f"MISSED: least {totals['least']:.4f} (must be {LEAST}), mean "
                 f"{totals['mean']:.4f} ({MEAN})")


if __name__ == "__main__":
    main()
