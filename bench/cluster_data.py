#!/usr/bin/env python3
"""How much data goes from a server to a worker on another host, beside what iperf3 carries between the two.

    make build && scripts/deps.sh test && ninja -C build bench_cluster_data && .deps/test/bin/python bench/cluster_data.py

The hosts are network namespaces with a link between them, as fast as the machine makes it and limited to 1 and 4 Gbit/s
by a token bucket; needs iperf3 (apt-get install iperf3). Requests of 150 kB, 32 at a time, without clients' protocols and
without TLS, as iperf3 is. Both take turns; medians, and the median of the ratios of neighbours.
Writes bench/results/cluster_data.json."""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import record
import server
from apart import mean

sys.path.insert(0, str(server.ROOT / "tests" / "python"))
import hosts  # noqa: E402

WIDTH = 37500  # floats: 150 kB
LINKS = {"unlimited": None, "4 Gbit/s": 4e9, "1 Gbit/s": 1e9}
IPERF_S = 1


def iperf(one, two):
    """Bytes a second that arrive."""
    with one.here():
        done = subprocess.run(["iperf3", "-c", two.address, "-t", str(IPERF_S), "-J"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 8


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--slots", type=int, default=2)
    arguments = parser.parse_args()
    if why := hosts.missing() or ("" if shutil.which("iperf3") else "iperf3 is not there"):
        sys.exit(why)
    binary = server.ROOT / "build" / "bench_cluster_data"
    result = {"slots": arguments.slots, "input_bytes": 4 * WIDTH, "links": {}}
    with tempfile.TemporaryDirectory() as name, hosts.Network() as network:
        mean(pathlib.Path(name), "wide", WIDTH)
        one, two = network.host("server"), network.host("worker")
        rest = [name, server.BINARY, str(arguments.slots)]
        serving = one.start([binary, "serve", one.address, *rest], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        port = serving.stdout.readline().strip()
        started = [serving, two.start([binary, "work", f"{one.address}:{port}", *rest]),
                   two.start(["iperf3", "-s"], stdout=subprocess.DEVNULL)]
        try:
            def ours():
                print(file=serving.stdin, flush=True)
                return float(serving.stdout.readline())
            ours()
            for link, bits in LINKS.items():
                one.limit(bits)
                pairs = []
                for _ in range(arguments.rounds):
                    pairs.append((ours(), iperf(one, two)))
                    time.sleep(0.1)  # the bucket fills again
                result["links"][link] = {
                    "ours_bytes_per_second": statistics.median(a for a, _ in pairs),
                    "iperf3_bytes_per_second": statistics.median(b for _, b in pairs),
                    "ratio": statistics.median(a / b for a, b in pairs)}
                print(link, result["links"][link], file=sys.stderr)
        finally:
            for process in started:
                process.kill()
                process.wait()
    record.write("cluster_data", result)


if __name__ == "__main__":
    main()
