#!/usr/bin/env python3
"""What a worker in another process over TCP costs, and what a connection between parts carries.

    make bench && scripts/deps.sh test && .deps/test/bin/python bench/cluster.py [--rounds 9] [--binary build/bench_cluster]

Over loopback, without TLS and without clients' protocols, in rounds that take turns: the median of a request alone and
requests per second, on a thread of the server (`here`) and on a worker of another process (`far`), for inputs of 1 and
of 150 kB; frames per second of one connection in one direction, empty (`messages_per_second`) and with 150 kB
(`bytes_per_second`). Writes bench/results/cluster.json."""

import argparse
import json
import pathlib
import subprocess
import tempfile

import record
import server
from apart import mean


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--binary", type=pathlib.Path, default=server.ROOT / "build" / "bench_cluster")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        repository = pathlib.Path(name)
        mean(repository, "small", 256)
        mean(repository, "wide", 37500)
        done = subprocess.run([arguments.binary, repository, server.BINARY, str(arguments.rounds)],
                              stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(done.stdout)
    print(json.dumps(result, indent=1))
    record.write("cluster", result)


if __name__ == "__main__":
    main()
