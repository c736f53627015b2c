#!/usr/bin/env python3
"""Symphony's Figure 13 over hosts: goodput by the delay of the network, measured and simulated.

    make build && chrt -r 1 .deps/bench/bin/python bench/cluster_delay.py [--seconds 5]

A server, and four hosts with two workers each, are network namespaces; every packet between them is held for
the delay by a forwarder (tests/python/hosts.py). ResNet50 of the paper's table, slowed tenfold as the delays are, so
that the machine's own stalls do not decide; all numbers are given without the slowing. Goodput is the highest rate at
which 99 % are on time, by halving. The simulation gets the same document: a batch occupies its worker for its run and
for the way there and back, since it is sent when its worker is free.
Writes bench/results/cluster_delay.json and .png (--plot draws it again)."""

import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import record
import server

sys.path.insert(0, str(server.ROOT / "tests" / "python"))
import hosts  # noqa: E402
import hosted  # noqa: E402

SLOWED = 10
ALPHA_MS, BETA_MS = 1.053, 5.072
MAX_BATCH = 64
DELAYS_MS = (0, 1, 2.5, 5)
SLOS_MS = (25, 50, 100)
HOSTS, SLOTS = 4, 2
ON_TIME = 0.99
WAY_MS = 10  # of the SLO, for the way to the client and back; both schedulers are told the rest
CONTROL_MS = 0.5  # what a server allows decisions before it has measured any
STEPS = 5
SLOS_LONG = 15  # a rate is tried at least; sooner a queue would hide that it is too high


def budget_ms(slo_ms):
    return SLOWED * slo_ms - WAY_MS


def simulated(slo_ms, delay_ms):
    document = {
        "seed": 1, "warmup_s": 2, "duration_s": 30, "scheduler": "fermata", "workers": {"count": HOSTS * SLOTS},
        "network": {"control_ms": CONTROL_MS, "per_item_ms": 0.0}, "rate_rps": 100,
        "models": [{"name": "resnet50", "max_batch": MAX_BATCH, "slo_ms": budget_ms(slo_ms),
                    "latency_ms": {"alpha": SLOWED * ALPHA_MS, "beta": SLOWED * (BETA_MS + 2 * delay_ms)}}]}
    done = subprocess.run([server.BINARY, "goodput", "-"], input=json.dumps(document), text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["goodput_rps"]


class Served(contextlib.ExitStack):
    """The server and its workers; a service for each SLO."""

    def __init__(self, folder):
        super().__init__()
        models = folder / "models"
        model = models / "resnet50"  # in its place one that takes as long by the clock
        model.mkdir(parents=True)
        (model / "1").symlink_to(server.ROOT / "tests" / "data" / "repository" / "identity-fp32" / "1")
        (model / "config.pbtxt").write_text(
            f'max_batch_size: {MAX_BATCH} input {{ name: "x" data_type: TYPE_FP32 dims: 4 }} '
            'output { name: "y" data_type: TYPE_FP32 dims: 4 }\n')
        server.write_profile(model, {items: SLOWED * (ALPHA_MS * items + BETA_MS) for items in (1, MAX_BATCH)})
        self.network = self.enter_context(hosts.Network())
        self.host = self.network.host("server")
        hosted.make_certificate(folder, "authority", "authority")
        hosted.make_certificate(folder, "part", "authority")
        config = folder / "fermata.yaml"
        config.write_text(json.dumps({
            "models": str(models), "log_level": "warning", "scheduler": "fermata",
            "listen": {"host": self.host.address, "public": True, "http": hosted.HTTP, "grpc": hosted.GRPC, "metrics": hosted.METRICS},
            "cluster": {"listen": f"{self.host.address}:{hosted.PARTS}", "silence_ms": 2000,
                        "tls": {"certificate": "part.pem", "key": "part.key", "authority": "authority.pem"}},
            "workers": {"executor": "paced", "types": [{"name": "far", "count": HOSTS * SLOTS, "remote": True}]},
            "services": {f"slo{slo}": {"model": "resnet50", "slo_ms": budget_ms(slo), "queue_limit": 100000} for slo in SLOS_MS}}))
        self.server = hosted.Part(folder, self.host, [server.BINARY, "serve", "--config", config])
        self.callback(self.server.kill)
        self.server.start()
        self.server.await_line("ready")
        for i in range(HOSTS):
            worker = hosted.Part(folder, self.network.host(f"worker{i}"), [
                server.BINARY, "worker", "--scheduler", f"{self.host.address}:{hosted.PARTS}", "--config", config,
                "--name", f"worker{i}", "--workers", str(SLOTS)])
            self.callback(worker.kill)
            worker.start()
        while self.metric("fermata_worker_serving") < HOSTS * SLOTS:
            time.sleep(0.1)

    def metric(self, name, **labels):
        with self.host.here():
            return hosted.sum_metric(f"{self.host.address}:{hosted.METRICS}", name, **labels)

    def delayed(self, delay_ms):
        if delay_ms == 0:
            return contextlib.nullcontext()
        workers = [host for name, host in self.network.hosts.items() if name != "server"]
        return self.network.delayed(SLOWED * delay_ms / 1e3, *((self.host, worker) for worker in workers))

    def on_time(self, slo_ms, rate, seconds):
        command = [server.BINARY, "load", "--url", f"{self.host.address}:{hosted.GRPC}", "--warmup", "1", "--duration", str(seconds),
                   "--seed", "1", "--json", "--service", f"slo{slo_ms}:{rate}::{SLOWED * slo_ms}"]
        with self.host.here():
            done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        return 1 - json.loads(done.stdout)["bad_rate"]

    def goodput(self, slo_ms, near, seconds):
        """Between 0.7 and 1.2 of the rate that it should be near."""
        low, high = 0.7 * near, 1.2 * near
        seconds = max(seconds, SLOS_LONG * SLOWED * slo_ms / 1e3)
        for _ in range(STEPS):
            middle = (low + high) / 2
            if self.on_time(slo_ms, middle, seconds) >= ON_TIME:
                low = middle
            else:
                high = middle
        return (low + high) / 2


def measure(arguments):
    earlier = record.read("cluster_delay")
    document = {"slowed": SLOWED, "workers": HOSTS * SLOTS, "slos_ms": SLOS_MS, "delays_ms": DELAYS_MS,
                "points": [point for point in earlier.get("points", []) if point["slo_ms"] not in arguments.slos]}
    with tempfile.TemporaryDirectory() as folder, Served(pathlib.Path(folder)) as served:
        for delay_ms in DELAYS_MS:
            with served.delayed(delay_ms):
                served.on_time(SLOS_MS[-1], 100, 2)  # its links are known then
                for slo_ms in arguments.slos:
                    said = simulated(slo_ms, delay_ms)
                    tries = [served.goodput(slo_ms, said, arguments.seconds) for _ in range(arguments.rounds)]
                    real = statistics.median(tries)
                    way = max(served.metric("fermata_host_control_delay_seconds", host=f"worker{i}") for i in range(HOSTS))
                    point = {"slo_ms": slo_ms, "delay_ms": delay_ms, "simulated_rps": SLOWED * said, "measured_rps": SLOWED * real,
                             "ratio": real / said,
                             "measured_ratios": [each / said for each in tries], "way_bound_ms": 1e3 * way / SLOWED}
                    print(f"  {point}", file=sys.stderr)
                    document["points"].append(point)
    record.write("cluster_delay", document, before=record.left(earlier) if len(arguments.slos) < len(SLOS_MS) else None)
    return document


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--slos", type=int, nargs="*", default=SLOS_MS, help="the others' points stay as they were")
    parser.add_argument("--rounds", type=int, default=1, help="of which a point is the median")
    parser.add_argument("--plot", action="store_true", help="only draws the record again")
    arguments = parser.parse_args()
    if arguments.plot:
        import drawings
        return drawings.draw("cluster_delay")
    if why := hosts.missing() or hosts.no_delay():
        sys.exit(why)
    measure(arguments)


if __name__ == "__main__":
    main()
