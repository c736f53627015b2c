#!/usr/bin/env python3
"""Symphony's Figure 14: 24 models and a load that changes, on up to 512 workers that come and go by advice.

    make build && .deps/bench/bin/python bench/cluster_autoscale.py [--seconds 300]

Measured: `fermata serve` and up to eight `fermata worker` with 64 emulated workers each, as processes. Every ten seconds as many of
these are started or sent SIGTERM as fermata_workers_wanted asks for, as an autoscaler would. The models are those of the paper's table
(1080Ti), slowed so that two cores carry 512 workers; requests and times are given without the slowing. Each window of ten seconds is
simulated too: the same document, the same counts of requests a second, as many workers as there were, and the window before as
warm-up. Writes bench/results/cluster_autoscale.json and .png (--plot draws it again)."""

import argparse
import contextlib
import json
import math
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

import record
import server
import yaml

TABLE = server.ROOT / "bench" / "policies" / "zoo_1080ti.yaml"
MODELS, MAX_BATCH = 24, 64
PODS, SLOTS = 8, 64
WINDOW_S = 10
WAY_MS = 20  # of the slowed SLO, for the way to the client and back
LEVELS = (0.25, 0.35, 0.6, 0.9, 0.95, 0.7, 0.4, 0.3, 0.5, 0.8, 1.15, 0.9, 0.45, 0.3, 0.2)  # of what all workers can do, over the run
SWING = 0.5  # of a model's own rate, around the level


def models_of(slowed):
    return [{"name": row["name"], "max_batch": MAX_BATCH, "slo_ms": slowed * row["slo_ms"] - WAY_MS,
             "latency_ms": {key: slowed * value for key, value in row["latency_ms"].items()}}
            for row in yaml.safe_load(TABLE.read_text())["models"][:MODELS]]


def fermata(command, document):
    done = subprocess.run([server.BINARY, command, "-"], input=json.dumps(document), text=True, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def document_of(models, workers, **more):
    return {"seed": 1, "scheduler": "fermata", "workers": {"count": workers}, "network": {"control_ms": 1, "per_item_ms": 0},
            "models": models, **more}


def capacity(models):
    """Requests a second of all workers, if each model has as many."""
    return fermata("goodput", document_of(models, PODS * SLOTS, warmup_s=10, duration_s=30, rate_rps=1000))["goodput_rps"]


def counts_of(models, peak, seconds):
    """Requests of each second, by model: the levels in turn, and swings of each model's own."""
    draw, made = random.Random(14), {}
    for model in models:
        period, phase = draw.uniform(60, 180), draw.uniform(0, 2 * math.pi)
        counts = []
        for second in range(seconds):
            at = second / seconds * (len(LEVELS) - 1)
            level = LEVELS[int(at)] + (at - int(at)) * (LEVELS[int(at) + 1] - LEVELS[int(at)])
            swing = 1 + SWING * math.sin(2 * math.pi * second / period + phase)
            counts.append(round(peak / len(models) * level * swing))
        made[model["name"]] = counts
    return made


class Pods(contextlib.ExitStack):
    """The server, and processes of workers: as many as are asked for."""

    def __init__(self, folder, models, size):
        super().__init__()
        self.folder, self.pods, self.leaving, self.made = folder, [], [], 0
        repository = folder / "models"
        for model in models:
            place = repository / model["name"]
            place.mkdir(parents=True)
            (place / "1").symlink_to(server.ROOT / "tests" / "data" / "repository" / "identity-fp32" / "1")
            (place / "config.pbtxt").write_text(f'max_batch_size: {MAX_BATCH} input {{ name: "x" data_type: TYPE_FP32 dims: 4 }} '
                                                'output { name: "y" data_type: TYPE_FP32 dims: 4 }\n')
            alpha, beta = model["latency_ms"]["alpha"], model["latency_ms"]["beta"]
            server.write_profile(place, {items: alpha * items + beta for items in (1, MAX_BATCH)})
        self.ports = server.free_ports(4)
        http, grpc, metrics, parts = self.ports
        self.config = folder / "fermata.yaml"
        self.config.write_text(json.dumps({
            "models": str(repository), "log_level": "warning", "scheduler": "fermata", "scheduler_tuning": "off", "recorder": "off",
            "listen": {"http": http, "grpc": grpc, "metrics": metrics}, "cluster": {"listen": f"127.0.0.1:{parts}", "silence_ms": 20000},
            "workers": {"executor": "paced", "isolation": "thread", "types": [{"name": "far", "count": PODS * SLOTS, "remote": True}]},
            "services": {model["name"]: {"model": model["name"], "slo_ms": model["slo_ms"], "queue_limit": 1000000} for model in models}}))
        self.server = self.start("server", "serve", "--config", self.config)
        self.callback(self.end_all)
        while b"ready" not in self.server.stdout.readline():
            if self.server.poll() is not None:
                sys.exit((folder / "server.log").read_text())
        self.scale(size)

    def start(self, name, *arguments):
        with (self.folder / f"{name}.log").open("w") as log:
            return subprocess.Popen([server.BINARY, *arguments], stdout=subprocess.PIPE, stderr=log)

    def scale(self, size):
        while len(self.pods) < size:
            self.made += 1
            name = f"pod{self.made}"
            self.pods.append(self.start(name, "worker", "--scheduler", f"127.0.0.1:{self.ports[3]}", "--config", self.config, "--name", name,
                                        "--workers", str(SLOTS)))
        while len(self.pods) > size:
            self.leaving.append(self.pods.pop())
            self.leaving[-1].send_signal(signal.SIGTERM)

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[2]}/metrics", timeout=60) as reply:
            return re.findall(r"(?m)^(\w+)(?:\{(.*)\})? (\S+)$", reply.read().decode())

    def await_workers(self, count):
        while sum(float(value) for name, _, value in self.metrics() if name == "fermata_worker_serving") < count:
            time.sleep(0.2)

    def end_all(self):
        for process in [*self.pods, *self.leaving, self.server]:
            process.kill()
            process.wait()


def reading(rows):
    """The counters of the moment, and what is wanted."""
    now = {"outcomes": {}, "busy_s": 0.0, "serving": 0, "wanted": None}
    for name, labels, value in rows:
        if name == "fermata_requests_total":
            service, outcome = (re.search(rf'{label}="([^"]*)"', labels)[1] for label in ("service", "outcome"))
            of = now["outcomes"].setdefault(service, {})
            of[outcome] = of.get(outcome, 0) + float(value)
        elif name == "fermata_worker_busy_seconds_total":
            now["busy_s"] += float(value)
        elif name == "fermata_worker_serving":
            now["serving"] += int(float(value))
        elif name == "fermata_workers_wanted":
            now["wanted"] = float(value)
    return now


def window_of(before, after, seconds):
    def ended(service, reading_):
        return reading_["outcomes"].get(service, {})
    on_time = {service: ended(service, after).get("on_time", 0) - ended(service, before).get("on_time", 0) for service in after["outcomes"]}
    all_of = {service: sum(ended(service, after).values()) - sum(ended(service, before).values()) for service in after["outcomes"]}
    return {"on_time": on_time, "ended": sum(all_of.values()), "bad_rate": 1 - sum(on_time.values()) / max(1, sum(all_of.values())),
            "busy": (after["busy_s"] - before["busy_s"]) / seconds, "workers": after["serving"], "wanted": after["wanted"]}


def measured(models, counts, seconds):
    size = max(1, math.ceil(PODS * LEVELS[0]))
    with tempfile.TemporaryDirectory() as folder, Pods(pathlib.Path(folder), models, size) as pods:
        pods.await_workers(size * SLOTS)
        services = []
        for model in models:
            file = pathlib.Path(folder) / f"{model['name']}.txt"
            file.write_text("".join(f"{count}\n" for count in counts[model["name"]]))
            services.append({"name": model["name"], "slo_ms": model["slo_ms"] + WAY_MS, "arrival": {"process": "trace", "file": str(file)}})
        plan = pathlib.Path(folder) / "load.json"
        plan.write_text(json.dumps({"protocol": "grpc", "url": f"127.0.0.1:{pods.ports[1]}", "duration_s": seconds, "warmup_s": 0, "seed": 1,
                                    "services": services}))
        load = subprocess.Popen([server.BINARY, "load", str(plan), "--json"], stdout=subprocess.PIPE, text=True)
        begun, windows, before = time.monotonic(), [], reading(pods.metrics())
        last = begun
        for number in range(1, seconds // WINDOW_S + 1):
            time.sleep(max(0.0, begun + number * WINDOW_S - time.monotonic()))
            after, now = reading(pods.metrics()), time.monotonic()
            windows.append(window_of(before, after, now - last) | {"pods": len(pods.pods)})
            before, last = after, now
            if after["wanted"] is not None:
                pods.scale(min(PODS, max(1, math.ceil(after["wanted"] / SLOTS))))
            print(f"  {number * WINDOW_S} s: {windows[-1]['ended']:.0f} ended, bad {windows[-1]['bad_rate']:.3f}, busy {windows[-1]['busy']:.0f} of "
                  f"{windows[-1]['workers']}, wanted {after['wanted']}, pods {len(pods.pods)}", file=sys.stderr)
        said = json.loads(load.communicate()[0])
        return windows, said


def simulated(models, counts, workers, window):
    """A window with that many workers, after the one before it."""
    begin = max(0, window - 1) * WINDOW_S
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for model in models:
            file = pathlib.Path(folder) / f"{model['name']}.txt"
            file.write_text("".join(f"{count}\n" for count in counts[model["name"]][begin:(window + 1) * WINDOW_S]))
            rows.append(model | {"arrival": {"process": "trace", "file": str(file)}})
        said = fermata("simulate", document_of(rows, workers, warmup_s=WINDOW_S * (window > 0), duration_s=WINDOW_S))
    signal_ = said["autoscale"]
    busy = said["worker_utilization"] * workers
    return {"on_time": said["on_time_rps"] * WINDOW_S, "bad_rate": said["bad_rate"], "busy": busy,
            "wanted": workers + signal_["add_workers"] - signal_["give_back_workers"]}


def measure(arguments):
    slowed, seconds = arguments.slowed, arguments.seconds // WINDOW_S * WINDOW_S
    models = models_of(slowed)
    peak = capacity(models)
    counts = counts_of(models, peak, seconds)
    windows, client = measured(models, counts, seconds)
    for number, window in enumerate(windows):
        window["simulated"] = simulated(models, counts, window["workers"], number)
    later = windows[1:]  # the first had no advice yet
    on_time = [sum(sum(window["on_time"].values()) for window in later), sum(window["simulated"]["on_time"] for window in later)]
    busy = [sum(window["busy"] for window in later), sum(window["simulated"]["busy"] for window in later)]
    document = {"slowed": slowed, "seconds": seconds, "models": [model["name"] for model in models], "peak_rps": slowed * peak,
                "offered_rps": [slowed * sum(counts[model["name"]][second] for model in models) for second in range(0, seconds, WINDOW_S)],
                "windows": windows, "client_bad_rate": client["bad_rate"], "client_lag_p99_ms": client["lag_p99_ms"],
                "on_time_ratio": on_time[0] / on_time[1], "busy_ratio": busy[0] / busy[1]}
    print(f"on time, measured by simulated: {document['on_time_ratio']:.3f}; busy workers {document['busy_ratio']:.3f}; "
          f"clients' bad rate {client['bad_rate']:.4f}", file=sys.stderr)
    if not arguments.dry:
        record.write("cluster_autoscale", document)
        draw(document)


def draw(document):
    import matplotlib.pyplot as pyplot
    import plot
    windows, slowed = document["windows"], document["slowed"]
    times = [(number + 1) * WINDOW_S for number in range(len(windows))]
    figure, axes = pyplot.subplots(4, 1, sharex=True, figsize=(8, 10))
    rates = [[slowed * window["on_time"].get(model, 0) / WINDOW_S for window in windows] for model in document["models"]]
    axes[0].stackplot(times, rates)
    axes[0].plot(times, [slowed * window["simulated"]["on_time"] / WINDOW_S for window in windows], "--", color=plot.NEUTRAL, label="simulated")
    axes[0].plot(times, document["offered_rps"], ":", color="black", label="offered")
    axes[0].set_ylabel("on time, requests/s")
    axes[1].plot(times, [window["busy"] for window in windows], label="busy")
    axes[1].plot(times, [window["simulated"]["busy"] for window in windows], "--", color=plot.NEUTRAL, label="busy, simulated")
    axes[1].step(times, [window["workers"] for window in windows], where="post", label="there")
    axes[1].set_ylabel("workers")
    axes[2].plot(times, [window["wanted"] for window in windows], label="wanted")
    axes[2].plot(times, [window["simulated"]["wanted"] for window in windows], "--", color=plot.NEUTRAL, label="simulated, not steadied")
    axes[2].set_ylabel("advice, workers")
    axes[3].plot(times, [100 * window["bad_rate"] for window in windows], label="measured")
    axes[3].plot(times, [100 * window["simulated"]["bad_rate"] for window in windows], "--", color=plot.NEUTRAL, label="simulated")
    axes[3].set_ylabel("not on time, %")
    axes[3].set_xlabel("time, s")
    for axis in axes:
        axis.legend(loc="upper left", fontsize="small")
        axis.set_ylim(0)
    figure.savefig(record.RESULTS / "cluster_autoscale.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--slowed", type=float, default=40)
    parser.add_argument("--dry", action="store_true", help="writes no record")
    parser.add_argument("--plot", action="store_true", help="only draws the record again")
    arguments = parser.parse_args()
    if arguments.plot:
        return draw(record.read("cluster_autoscale"))
    return measure(arguments)


if __name__ == "__main__":
    main()
