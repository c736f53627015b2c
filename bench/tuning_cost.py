#!/usr/bin/env python3
"""What it costs that a server tries its rules on its own traffic: processor time of the thread that does, and what the
others' requests notice. Emulated models, so that the machine's speed is not that of models.

    tuning_cost.py [--rate 10000] [--seconds 40] [--rounds 3]      bench/results/tuning_cost.json
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

import record
from server import BINARY, Server, emulated_model

LESS_PRIORITY = 10  # nice: of threads that give way
MODELS = 4


def work_at_less_priority(pid):
    """Seconds of the threads that give way to the server's others."""
    ticks, own = 0, os.getpriority(os.PRIO_PROCESS, pid)
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        stat = (thread / "stat").read_text().rpartition(")")[2].split()
        if int(stat[16]) == min(own + LESS_PRIORITY, 19):
            ticks += int(stat[11]) + int(stat[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(args, tuning):
    with tempfile.TemporaryDirectory() as folder:
        for i in range(MODELS):
            emulated_model(pathlib.Path(folder), f"m{i}", 0.05, 2, 64)
        services = {f"m{i}": {"slo_ms": 50, "queue_limit": 10000} for i in range(MODELS)}
        with Server({"models": folder, "workers": {"count": 4, "executor": "emulated"}, "services": services,
                     "scheduler_tuning": tuning}) as server:
            loads = [word for i in range(MODELS) for word in ("--service", f"m{i}:{args.rate / MODELS}")]
            before = work_at_less_priority(server._process.pid)
            done = subprocess.run([BINARY, "load", "--url", f"localhost:{server.grpc}", *loads, "--timeout-ms", "50", "--json",
                                   "--duration", str(args.seconds)], capture_output=True, text=True, check=True)
            worked = work_at_less_priority(server._process.pid) - before
            metrics = server.metrics()
    answer = json.loads(done.stdout)
    services = answer["services"]
    return {"share_of_a_core": worked / (args.seconds + 1), "trials": metrics["fermata_rules_trials_total"],
            "offered_rps": sum(s["offered_rps"] for s in services), "p99_ms": max(s["p99_ms"] for s in services)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=10000)
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-record", action="store_true")
    args = parser.parse_args()
    rounds = []
    for i in range(args.rounds):
        rounds.append({tuning: measure(args, tuning) for tuning in ("on", "off")})
        print(f"{i + 1}/{args.rounds}", json.dumps(rounds[-1]), flush=True)
    both = {tuning: {key: statistics.median(r[tuning][key] for r in rounds) for key in rounds[0][tuning]} for tuning in ("on", "off")}
    document = {"rate_rps": args.rate, "rounds": rounds, "median": both, "p99_on_by_off": statistics.median(r["on"]["p99_ms"] / r["off"]["p99_ms"] for r in rounds)}
    print(json.dumps(document["median"], indent=1), document["p99_on_by_off"])
    if not args.no_record:
        record.write("tuning_cost", document)


if __name__ == "__main__":
    main()
