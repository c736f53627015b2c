#!/usr/bin/env python3
"""Whether the real server keeps up with many requests a second for services of several variants on many workers.

    python3 bench/variants_rate.py          # bench/results/variants_rate.{json,png}

Emulated workers take as long as profiles say, so what is slow here is the server: it decides for every worker that
is free which variant answers whom, on the cores where the client runs too (`fermata load`, gRPC, Poisson).
`short` models have batches of one or two requests at most rates, so that there is a decision for nearly every request; `long`
ones have batches of many, beside many that wait. RATES are for the most workers of POOLS, and in proportion
for fewer. The same in virtual time, where decisions take none, says what the server loses. A client that is late by more
than TRUSTED_LAG_MS at p99 has measured nothing. Exits with 1 where less than MUST is on time.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy

import drawings
import plot
import server

POOLS, RATES = (1, 8, 16, 64), (1000, 2500, 5000)
SHORT = (50, {"small": (0.5, 1, 0.85), "middle": (1, 3, 0.92), "large": (2, 8, 0.97)})
MODELS = {  # by kind: SLO, and of every variant alpha, beta (ms) and how often it is right
    "short": SHORT,
    "aware": SHORT,
    "long": (200, {"small": (1.5, 6, 0.85), "middle": (4, 12, 0.92), "large": (9, 25, 0.97)}),
}
MAX_BATCH, WAY_MS = 16, 10  # the way to the client and back, which the server is not told of
MUST, TRUSTED_LAG_MS = 0.99, 10
WARMUP_S, EXAMPLES = 1, 100
POINTS, CLASSES, SPREAD = 1000, 10, 0.03  # of evidence; how far the recalls of classes are apart


def repository(folder, kind):
    for name, (alpha_ms, beta_ms, accuracy) in MODELS[kind][1].items():
        recall = (accuracy + numpy.linspace(-SPREAD, SPREAD, CLASSES)).tolist()
        server.emulated_model(folder, name, alpha_ms, beta_ms, MAX_BATCH, accuracy=accuracy, recall=recall)
    random = numpy.random.default_rng(1)
    numpy.save(folder / "features.npy", random.random((POINTS, 64), numpy.float32))
    numpy.save(folder / "labels.npy", random.integers(CLASSES, size=POINTS))


def evidence(folder):
    return {"short_circuit": False, "evidence": {"kind": "neighbors", "k": 5, "features": str(folder / "features.npy"),
                                                 "labels": str(folder / "labels.npy")}}


def simulated(kind, workers, rate, seconds):
    """Without a look at the data."""
    slo_ms, variants = MODELS[kind]
    document = {"seed": 1, "warmup_s": WARMUP_S, "duration_s": seconds, "workers": {"count": workers}, "rate_rps": rate,
                "applications": [{
                    "name": "any", "slo_ms": slo_ms - WAY_MS, "penalty": "step",
                    "variants": [{"name": name, "latency_ms": {"alpha": alpha_ms, "beta": beta_ms}, "accuracy": accuracy,
                                  "max_batch": MAX_BATCH} for name, (alpha_ms, beta_ms, accuracy) in variants.items()],
                    "examples": [{"label": 0, "correct": [i < EXAMPLES * accuracy for *_, accuracy in variants.values()]}
                                 for i in range(EXAMPLES)]}]}
    done = subprocess.run([server.BINARY, "simulate", "-"], input=json.dumps(document), text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    row, = json.loads(done.stdout)["applications"]
    return {"simulated_on_time": 1 - (row["late"] + row["dropped"]) / row["offered"], "simulated_p99_ms": row["p99_ms"]}


def measure(folder, kind, workers, rate, seconds):
    slo_ms, variants = MODELS[kind]
    how = evidence(folder) if kind == "aware" else {}
    config = {"models": str(folder), "log_level": "warning", "workers": {"count": workers, "executor": "emulated"},
              "services": {"any": {"kind": "variants", "variants": list(variants), "penalty": "step",
                                   "slo_ms": slo_ms - WAY_MS, "queue_limit": 100000} | how}}
    with server.Server(config) as running:
        before = server.cpu_seconds(running.pid)
        done = subprocess.run(
            [server.BINARY, "load", "--url", f"127.0.0.1:{running.grpc}", "--service", f"any:{rate}::{slo_ms}", "--warmup",
             str(WARMUP_S), "--duration", str(seconds), "--drain", "2", "--explain", "--json"], text=True, capture_output=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        busy_s = server.cpu_seconds(running.pid) - before
    found = json.loads(done.stdout)
    return {"kind": kind, "workers": workers, "rate_rps": rate, "offered_rps": found["offered_rps"],
            "on_time": 1 - found["bad_rate"], "server_us": 1e6 * busy_s / found["sent"],
            **{what: found[what] for what in ("late", "rejected_deadline", "rejected_queue", "failed", "lost", "p50_ms", "p99_ms",
                                              "mean_batch", "run_p50_ms", "queueing_p99_ms", "lag_p99_ms")},
            **simulated(kind, workers, rate, seconds)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5, help="of each run")
    parser.add_argument("--workers", type=int, nargs="*", default=POOLS)
    parser.add_argument("--rates", type=int, nargs="*", default=RATES)
    arguments = parser.parse_args()
    rows = []
    for kind in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            repository(folder, kind)
            for workers in arguments.workers:
                for rate in arguments.rates:
                    rows.append(measure(folder, kind, workers, rate * workers / POOLS[-1], arguments.seconds))
                    print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    what = list(rows[0])
    print(plot.table(what, [list(r.values()) for r in rows]))
    if (tuple(arguments.workers), tuple(arguments.rates)) == (POOLS, RATES):
        document = {"must": MUST, "models": MODELS, "rows": rows}
        print(plot.save("variants_rate", drawings.DRAWN["variants_rate"](document), document))
    for row in rows:
        where = f"{row['kind']} models, {row['rate_rps']:.0f}/s on {row['workers']} workers"
        if row["lag_p99_ms"] > TRUSTED_LAG_MS:
            sys.exit(f"NOT MEASURED: {where}: sends were late by {row['lag_p99_ms']:.1f} ms")
        if row["rate_rps"] == RATES[-1] and row["on_time"] < MUST:
            sys.exit(f"MISSED: {where}: {row['on_time']:.4f} on time")


if __name__ == "__main__":
    main()
