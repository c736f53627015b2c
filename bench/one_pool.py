#!/usr/bin/env python3
"""Services of all kinds on one pool of workers beside the best fixed partition of it, in virtual time.

    python3 bench/one_pool.py                   # bench/results/one_pool.{json,png}
    python3 bench/one_pool.py --loads 1 --patterns tides --name ''

Plain models, the zoo's variants, an ensemble of the zoo and a pipeline of two stages, each with a
quarter of the work. Utility is what requests are worth on average: 1 in time of a model, a variant's
right answer less its penalty, a right answer of the ensemble in time, one in time of the pipeline
times its accuracy. Utility is summed twice: every kind counts the same, or every request. The partition gives
each kind workers of its own, so many that the sum is the most that any division reaches, each part under
the default as well.
Patterns: Poisson arrivals; bursts, of gamma-distributed gaps; tides, in which every kind's load
goes up and down, one after the other. Exits with 1 where one pool is below LEAST times the partition on
average, every kind counting the same.
"""

import argparse
import concurrent.futures
import itertools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import ensembles_random
import drawings
import plot
import server
import variants_zoo

WORKERS, LEAST = 12, 1.1
LOADS = (0.6, 1, 1.5)  # of what the workers could do if all batches were full
PATTERNS = ("poisson", "bursts", "tides")
BURSTS = 0.2  # the shape of the gamma distribution
TIDE_S, TIDE = 40, 0.9  # its period, and how much of the load comes and goes
SECONDS, WARMUP_S = 80, 2
ENSEMBLE = 3  # the number of a random one
KINDS = ("models", "applications", "ensembles", "pipelines")


def models():
    made = [{"name": name, "slo_ms": slo, "max_batch": 32,
             "latency_ms": {"alpha": alpha, "beta": beta}, "share": share}
            for name, slo, alpha, beta, share in (
                ("fast", 25, 0.3, 3, 6), ("usual", 100, 1, 8, 3), ("slow", 400, 4, 30, 1))]
    return {"models": made}, 1000 * sum(m["share"] for m in made) / sum(
        m["share"] * (m["latency_ms"]["alpha"] + m["latency_ms"]["beta"] / 16) for m in made)


def variants():
    records = variants_zoo.load(variants_zoo.ALL_RECORDS)
    slowed = variants_zoo.slowed(records)
    made = variants_zoo.scenario(records, "fermata", 1, slowed=slowed)["applications"]
    # Between what the most accurate bear and what others do.
    return {"applications": made}, 4 * variants_zoo.bearable_rps(records) / slowed


def ensemble():
    drawn = ensembles_random.scenario(ENSEMBLE)["ensembles"]
    return {"ensembles": drawn}, 1000 / sum(map(ensembles_random.cheapest_ms, drawn[0]["models"]))


def pipeline():
    stages = [{"name": stage, "variants": [
        {"name": f"{stage}-{i}", "accuracy": accuracy, "max_batch": 16,
         "latency_ms": {"alpha": ms / 2, "beta": ms / 2}} for i, (accuracy, ms) in enumerate(own)]}
        for stage, own in (("detect", ((0.9, 6), (0.97, 20))), ("read", ((0.85, 4), (0.95, 30))))]
    return {"pipelines": [{"name": "chain", "slo_ms": 250, "stages": stages}]}, 40


MADE = dict(zip(KINDS, (models, variants, ensemble, pipeline)))


def arrival(pattern, rate, phase, folder):
    if pattern == "poisson":
        return "poisson"
    if pattern == "bursts":
        return {"process": "gamma", "shape": BURSTS}
    file = pathlib.Path(folder) / f"{phase}-{rate:.3f}"
    file.write_text("".join(
        f"{max(0, round(rate * (1 + TIDE * math.sin(2 * math.pi * (s / TIDE_S + phase)))))}\n"
        for s in range(SECONDS + WARMUP_S)))
    return {"process": "trace", "file": str(file)}


def scenario(kinds, workers, pattern, load, folder):
    """Those of the kinds, each with the arrivals that it has on a pool of WORKERS."""
    document = {"seed": 1, "scheduler": "fermata", "workers": {"count": workers},
                "warmup_s": WARMUP_S, "duration_s": SECONDS}
    for kind in kinds:
        part, bearable = MADE[kind]()
        document |= part
        total = sum(service.get("share", 1) for service in part[kind])
        for service in part[kind]:
            rate = load * bearable * WORKERS / len(KINDS) * service.get("share", 1) / total
            phase = KINDS.index(kind) / len(KINDS)
            service["share"] = rate
            service["arrival"] = arrival(pattern, rate, phase, folder)
    document["rate_rps"] = sum(s["share"] for kind in kinds for s in document[kind])
    if pattern == "tides":
        del document["rate_rps"]
        for kind in kinds:
            for service in document[kind]:
                del service["share"]
    return document


def worth(kind, rows):
    """Of a request on average."""
    each = {"models": lambda r: r["on_time"] / max(1, r["offered"]),
            "applications": lambda r: r["utility"], "ensembles": lambda r: r["accuracy"],
            "pipelines": lambda r: r["on_time"] / max(1, r["offered"]) * r["accuracy"]}[kind]
    return sum(each(row) * row["offered"] for row in rows) / max(1, sum(r["offered"] for r in rows))


def simulate(kinds, workers, pattern, load):
    """Utility by kind."""
    with tempfile.TemporaryDirectory() as folder:
        document = scenario(kinds, workers, pattern, load, folder)
        done = subprocess.run([server.BINARY, "simulate", "-"], input=json.dumps(document),
                              text=True, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    result = json.loads(done.stdout)
    return {kind: worth(kind, result[kind]) for kind in kinds}


def total(utilities, weights):
    return sum(weights[kind] * utility for kind, utility in utilities.items())


def best_partition(alone, weights):
    """By kind the utility with 1, 2, ... workers: how many each gets, and the utilities then."""
    most = WORKERS - len(KINDS) + 1
    divisions = (d for d in itertools.product(range(1, most + 1), repeat=len(KINDS))
                 if sum(d) == WORKERS)
    best = max(divisions, key=lambda d: sum(weights[k] * alone[k][n - 1] for k, n in zip(KINDS, d)))
    return {k: {"workers": n, "utility": alone[k][n - 1]} for k, n in zip(KINDS, best)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", type=float, nargs="*", default=LOADS)
    parser.add_argument("--patterns", nargs="*", choices=PATTERNS, default=PATTERNS)
    parser.add_argument("--together", type=int, default=os.cpu_count(), help="runs at a time")
    parser.add_argument("--name", default="one_pool", help="of the record; '' keeps none")
    arguments = parser.parse_args()
    rows = []
    weights = {"kind": dict.fromkeys(KINDS, 1), "request": {k: MADE[k]()[1] for k in KINDS}}
    most = WORKERS - len(KINDS) + 1
    with concurrent.futures.ThreadPoolExecutor(arguments.together) as pool:
        for pattern, load in itertools.product(arguments.patterns, arguments.loads):
            together = pool.submit(simulate, KINDS, WORKERS, pattern, load)
            each = {k: [pool.submit(simulate, (k,), n, pattern, load) for n in range(1, most + 1)]
                    for k in KINDS}
            alone = {k: [f.result()[k] for f in own] for k, own in each.items()}
            shared = together.result()
            partitions = {by: best_partition(alone, weight) for by, weight in weights.items()}
            ratios = {by: total(shared, weight) / total(
                {k: p["utility"] for k, p in partitions[by].items()}, weight)
                for by, weight in weights.items()}
            partition = partitions["kind"]
            rows.append({"pattern": pattern, "load": load, "one_pool": shared,
                         "partition": partition, "ratio": ratios["kind"],
                         "partition_by_request": partitions["request"],
                         "ratio_by_request": ratios["request"]})
            print(f"{pattern}, {load:g}x: {ratios['kind']:.3f}, by request {ratios['request']:.3f}; one pool "
                  + ", ".join(f"{k} {u:.3f}" for k, u in shared.items()) + "; parted "
                  + ", ".join(f"{k} {p['utility']:.3f} of {p['workers']}"
                              for k, p in partition.items()), flush=True)
    mean = statistics.mean(row["ratio"] for row in rows)
    by_request = statistics.mean(row["ratio_by_request"] for row in rows)
    print(f"mean {mean:.3f}, least {min(row['ratio'] for row in rows):.3f}; by request {by_request:.3f}")
    if arguments.name:
        document = {"workers": WORKERS, "mean": mean, "mean_by_request": by_request, "rows": rows}
        print(plot.save(arguments.name, drawings.one_pool(document), document))
    if mean < LEAST:
        sys.exit(f"MISSED: one pool is {mean:.3f} times the best partition, not {LEAST}")


if __name__ == "__main__":
    main()
