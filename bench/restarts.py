#!/usr/bin/env python3
"""Restarts under load: does every call of clients in closed loops end as answered, or as one to try again?

    make build && scripts/deps.sh test && .deps/test/bin/python bench/restarts.py [--restarts 100] [--clients 12]

A server of one tiny model is stopped by SIGTERM and started again on its ports, while clients over gRPC and
HTTP send one request after another. Every call must end as OK or UNAVAILABLE, 200 or 503; that nobody listens
between two servers is no call. Writes bench/results/restarts.json, and exits with 1 where another end was
seen."""

import argparse
import json
import pathlib
import signal
import subprocess
import sys
import tempfile

import record
import server

sys.path.insert(0, str(server.ROOT / "tests" / "python"))
from closed_loops import ClosedLoops  # noqa: E402

MODEL = "identity-fp32"
GOOD = {"grpc OK", "grpc UNAVAILABLE", "http 200", "http 503"}
CALLS = 200  # of each protocol, between two restarts


def start(folder, ports, delay_s):
    http, grpc, metrics = ports
    config = folder / "fermata.yaml"
    config.write_text(json.dumps({
        "models": str(folder / "models"), "log_level": "warning", "workers": {"count": 1},
        "drain_delay_s": delay_s, "listen": {"host": "127.0.0.1", "http": http, "grpc": grpc, "metrics": metrics}}))
    process = subprocess.Popen([server.BINARY, "serve", "--config", config], stdout=subprocess.PIPE, text=True)
    if not process.stdout.readline().startswith("ready"):
        sys.exit("the server did not start")
    return process


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--restarts", type=int, default=100)
    parser.add_argument("--clients", type=int, default=12, help="of each protocol")
    parser.add_argument("--drain-delay", type=float, default=0.0)
    arguments = parser.parse_args()
    ports = server.free_ports(3)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "models").mkdir()
        (folder / "models" / MODEL).symlink_to(server.ROOT / "tests" / "data" / "repository" / MODEL)
        process = start(folder, ports, arguments.drain_delay)
        clients = ClosedLoops(f"127.0.0.1:{ports[1]}", f"127.0.0.1:{ports[0]}", MODEL, arguments.clients)
        wanted, failed = 0, 0
        for _ in range(arguments.restarts):
            wanted = min(clients.ends["grpc OK"], clients.ends["http 200"]) + CALLS
            clients.wait_for(wanted)
            process.send_signal(signal.SIGTERM)
            failed += process.wait() != 0
            process = start(folder, ports, arguments.drain_delay)
        clients.wait_for(wanted + CALLS)
        ends = dict(sorted(clients.stop().items()))
        process.terminate()
        failed += process.wait() != 0
    bad = {end: count for end, count in ends.items() if end not in GOOD}
    record.write("restarts", {"restarts": arguments.restarts, "clients_of_each_protocol": arguments.clients,
                              "drain_delay_s": arguments.drain_delay, "ends": ends, "ended_with_an_error": failed})
    print(json.dumps({"ends": ends, "bad": bad, "servers that ended with an error": failed}))
    return 1 if bad or failed else 0


if __name__ == "__main__":
    sys.exit(main())
