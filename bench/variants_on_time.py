#!/usr/bin/env python3
"""Whether a service of two variants keeps a deadline of 50 ms by its defaults, with and without evidence.

    python3 bench/variants_on_time.py          # bench/results/variants_on_time.json

The zoo's handwriting on ONNX Runtime, one worker with one thread, asked by `fermata load` (gRPC, Poisson) on the same
machine. The client's deadline is the server's, so that the way back counts as well. Of ROUNDS rounds the median counts; one in which
sends were late by more than TRUSTED_LAG_MS at p99 has measured the machine, and does not count. Exits with 1 where less
than ON_TIME is on time or more than LATE late.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import plot
import record
import server

VARIANTS, SLO_MS, RATES = ("handwriting-small", "handwriting-large"), 50, (300, 600, 1200, 2400)
ROUNDS, ON_TIME, LATE, TRUSTED_LAG_MS, NEIGHBOURS = 3, 0.97, 0.005, 10, 9
DATA = server.ROOT / "zoo" / "data" / "handwriting"
WHAT = ("on_time", "late", "rejected", "p50_ms", "p99_ms", "lag_p99_ms", "mean_batch")


def labelled(part):
    return {what: str(DATA / f"{part}-{what}.npy") for what in ("features", "labels")}


def configuration(folder, evidence):
    for name in VARIANTS:
        (folder / name).symlink_to(server.ROOT / "zoo" / "repository" / name)
    service = {"kind": "variants", "variants": list(VARIANTS), "slo_ms": SLO_MS, "labelled": labelled("calibration")}
    if evidence:
        service["evidence"] = labelled("train") | {"k": NEIGHBOURS}
    return {"models": str(folder), "log_level": "warning", "workers": {"count": 1, "threads": 1}, "services": {"any": service}}


def asked(port, rate, seconds, seed):
    done = subprocess.run(
        [server.BINARY, "load", "--url", f"127.0.0.1:{port}", "--service", f"any:{rate}:{DATA / 'stream-features.npy'}:{SLO_MS}",
         "--timeout-ms", str(SLO_MS), "--warmup", "1", "--duration", str(seconds), "--drain", "2", "--seed", str(seed),
         "--explain", "--json"], text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    found = json.loads(done.stdout)
    rejected = found["rejected_deadline"] + found["rejected_queue"]
    return {"on_time": 1 - found["bad_rate"], "late": found["late"] / found["sent"], "rejected": rejected / found["sent"],
            **{what: found[what] for what in WHAT[3:]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5, help="of each run")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    rows = []
    for evidence in (False, True):
        with tempfile.TemporaryDirectory() as folder, server.Server(configuration(pathlib.Path(folder), evidence)) as running:
            for rate in RATES:
                rounds = [asked(running.grpc, rate, arguments.seconds, seed) for seed in range(1, arguments.rounds + 1)]
                trusted = [r for r in rounds if r["lag_p99_ms"] <= TRUSTED_LAG_MS]
                median = {what: statistics.median(r[what] for r in trusted) for what in WHAT} if trusted else None
                rows.append({"evidence": evidence, "rate_rps": rate, "trusted": len(trusted), "median": median, "rounds": rounds})
                print(json.dumps(rows[-1] | {"rounds": [round(r["on_time"], 4) for r in rounds]}), file=sys.stderr, flush=True)
    print(plot.table(["evidence", "requests/s", "trusted", *WHAT], [
        [r["evidence"], r["rate_rps"], r["trusted"], *(r["median"] or dict.fromkeys(WHAT, float("nan"))).values()] for r in rows]))
    record.write("variants_on_time", {"slo_ms": SLO_MS, "must": {"on_time": ON_TIME, "late": LATE}, "rows": rows})
    good = all(r["median"] and r["median"]["on_time"] >= ON_TIME and r["median"]["late"] <= LATE for r in rows)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
