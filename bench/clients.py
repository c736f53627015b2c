#!/usr/bin/env python3
"""Other people's clients on a server of tests/data: what of the protocol each of them gets.

Every program of bench/clients/ tries one: Triton's Python clients (of both protocols, asynchronous ones, shared
memory), KServe's and MLServer's, curl, wrk, h2load, Node, Java. With --large also perf_analyzer, which is
fetched for it. bench/results/clients.json says what passed.

    bench/clients.py [--large] [--only PROGRAM]
"""

import argparse
import json
import pathlib
import subprocess
import sys

import record
from server import ROOT, Server

HERE = pathlib.Path(__file__).resolve().parent / "clients"
PROGRAMS = {  # and the environment that each runs in
    "tritonclient_sync": "clients", "tritonclient_aio": "clients", "kserve_client": "clients",
    "open_inference_client": "clients", "mlserver_client": "mlserver", "programs": "clients"}
LIMIT_S = 1200


def tried(program, environment, addresses, more):
    python = ROOT / ".deps" / environment / "bin" / "python"
    done = subprocess.run([python, HERE / f"{program}.py", *addresses, *more],
                          stdout=subprocess.PIPE, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        raise SystemExit(f"{program} ended with {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--only", choices=PROGRAMS, help="prints its checks and writes nothing")
    options = parser.parse_args()
    rows = []
    with Server({"models": str(ROOT / "tests" / "data" / "repository")}) as server:
        addresses = [f"127.0.0.1:{port}" for port in (server.http, server.grpc, server.metrics_port)]
        for program, environment in PROGRAMS.items():
            if options.only in (None, program):
                rows += tried(program, environment, addresses, ["--large"] if options.large else [])
    for row in rows:
        failed = [c for c in row["checks"] if not c["passed"]]
        row["passed"], row["failed"] = len(row["checks"]) - len(failed), len(failed)
        print(f"{row['client']:32} {row['version'][:40]:40} {row['passed']:4} passed {row['failed']:3} failed")
        for check in failed:
            print(f"    {check['check']}: {check['why']}")
    passed, failed = (sum(row[key] for row in rows) for key in ("passed", "failed"))
    print(f"{passed} passed, {failed} failed")
    if options.only is None:
        record.write("clients", {"passed": passed, "failed": failed, "clients": rows})
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
