#!/usr/bin/env python3
"""What one decision of the default about variants and about ensembles costs, from one worker to 64.

    python3 bench/decisions.py          # bench/results/decisions.{json,png}

Processor time of the calls that bind a batch, in virtual time (build/bench_decisions). Variants: the zoo's
three applications with REQUESTS requests a second for each worker, from a light load to several times
what their most accurate variants bear. Ensembles: random ones (ensembles_random.py), at LOADS times the load
at which all of their models could answer everybody. Exits with 1 where a median is above MUST_US.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

import drawings
import ensembles_random
import plot
import variants_zoo

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKERS = (1, 2, 4, 8, 16, 32, 64)
REQUESTS = (20, 75, 150)
ENSEMBLES, LOADS = (1, 3, 7), (0.5, 1, 2)
BATCHES = 3000  # or so, of a run
MUST_US = 100


def variants(workers, rate):
    records = variants_zoo.load()
    return variants_zoo.scenario(
        records, "fermata", 1, slowed=variants_zoo.slowed(records), warmup=0, workers=workers,
        seconds=max(1, BATCHES / (workers * rate))) | {"rate_rps": workers * rate}


def ensemble(workers, number, load):
    document = ensembles_random.scenario(number)
    own = document["ensembles"][0]
    rate = load * workers * 1000 / sum(map(ensembles_random.cheapest_ms, own["models"]))
    return document | {"workers": {"count": workers}, "rate_rps": rate, "warmup_s": 0,
                       "duration_s": max(1, BATCHES / rate)}


def measure(binary, document):
    done = subprocess.run([binary], input=json.dumps(document), text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"bench_decisions: {done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "build/bench_decisions")
    parser.add_argument("--workers", type=int, nargs="*", default=WORKERS)
    arguments = parser.parse_args()
    rows = []
    for workers in arguments.workers:
        cases = [("variants", f"{rate}/s a worker", variants(workers, rate)) for rate in REQUESTS]
        cases += [("ensembles", f"{number}, {load:g}x", ensemble(workers, number, load))
                  for number in ENSEMBLES for load in LOADS]
        for kind, case, document in cases:
            rows.append({"kind": kind, "workers": workers, "case": case}
                        | measure(arguments.binary, document))
            print(", ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
                            for key, value in rows[-1].items()), flush=True)
    document = {"must_us": MUST_US, "rows": rows}
    print(plot.save("decisions", drawings.DRAWN["decisions"](document), document))
    above = [r for r in rows if r["p50_us"] > MUST_US]
    if above:
        sys.exit(f"MISSED: {len(above)} of {len(rows)} medians are above {MUST_US} us, the most "
                 f"{max(r['p50_us'] for r in above):.0f} us")


if __name__ == "__main__":
    main()
