#!/usr/bin/env python3
"""That nothing a client can ask for costs more than n log n.

Counts, with valgrind, the instructions of every case of build/bench_scaling (each entry of the
scheduler with each kind of service, each parser, what the engine does with a request's parts) at n,
2n and 4n. Fails where they grow by more than those of n log n would, and two fifths; of some things that are
bounded otherwise (a model's batch shapes, of which there are at most 256) n squared log n. Counts are the
same on every run, whatever else the machine does.

    bench/scaling.py [--binary build/bench_scaling] [--record] [CASE ...]
"""

import argparse
import math
import pathlib
import re
import subprocess
import sys

import record

ROOT = pathlib.Path(__file__).resolve().parent.parent
SLACK = 1.4  # first allocations, growing tables


def instructions(binary, case, n):
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no",
         "--toggle-collect=measured", binary, case, str(n)], text=True, capture_output=True)
    if done.returncode != 0:
        raise SystemExit(f"{case} at {n}: {done.stderr[-2000:]}")
    return int(re.search(r"Collected : (\d+)", done.stderr)[1])


def measure(binary, case, n, power):
    counts = [instructions(binary, case, size) for size in (n, 2 * n, 4 * n)]
    most = [m**power * math.log(m * n) / math.log(n) * SLACK for m in (2, 4)]
    growth = [counts[1] / counts[0], counts[2] / counts[0]]
    return {"case": case, "n": n, "power": power, "instructions": counts, "growth": growth,
            "good": all(g <= m for g, m in zip(growth, most))}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "build/bench_scaling")
    parser.add_argument("--record", action="store_true", help="write bench/results/scaling.json, other cases' rows stay")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    lines = subprocess.run([options.binary], text=True, capture_output=True, check=True).stdout.splitlines()
    known = {name: (int(n), int(power)) for name, n, power in map(str.split, lines)}
    rows = []
    for case in options.cases or known:
        row = measure(options.binary, case, *known[case])
        rows.append(row)
        print(f"{case:28} n={row['n']:<6} {row['instructions'][0]:>12} "
              f"x{row['growth'][0]:.2f} x{row['growth'][1]:.2f} {'' if row['good'] else 'GROWS'}",
              flush=True)
    if options.record:
        earlier = record.read("scaling")
        kept = [row for row in earlier.get("rows", []) if row["case"] in known.keys() - {r["case"] for r in rows}]
        record.write("scaling", {"rows": kept + rows}, before=record.left(earlier) if kept else None)
    return 0 if all(row["good"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
