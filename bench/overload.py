#!/usr/bin/env python3
"""Three times what the machine can serve: does everything still end, and in time?

    make build && python3 bench/overload.py [--model digits-cnn-large|emulated]

Starts a server, finds the highest rate at which 99 % of the answers are on time
(open loop, Poisson), offers that rate and three times as much, and checks that
every request ends exactly once on both sides, that memory stays bounded, that on
time answers a second stay within 10 % of the most at any load, and that no rejection
comes later than the moment at which its request alone could still have made it.
Writes bench/results/overload-MODEL.json and .png."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import threading

import plot
import server

ROOT = server.ROOT
SERVICE = "overload"
GOOD_SHARE = 0.99
EMULATED = {"alpha_ms": 5.0, "beta_ms": 3.0, "max_batch": 16, "slo_ms": 150.0}
REAL = {"slo_ms": 100.0}
WAY_MS = 5.0        # of the SLO, kept for the way; the server is told the rest
LATE_BY_MS = 5.0    # a rejection may be: the machine's own stalls
GROWTH_MB = 16.0    # of resident memory in the second half of the overload
RATIOS = (0.5, 1.0, 1.5, 2.0, 3.0)


def emulated_repository(folder):
    """A model that takes alpha * items + beta by the clock, whatever the machine."""
    model = folder / "emulated"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(
        f'max_batch_size: {EMULATED["max_batch"]}\n'
        'input { name: "x" data_type: TYPE_FP32 dims: 64 }\n'
        'output { name: "y" data_type: TYPE_FP32 dims: 10 }\n')
    batches = {}
    for items in (1, EMULATED["max_batch"]):
        ms = EMULATED["alpha_ms"] * items + EMULATED["beta_ms"]
        batches[str(items)] = {"runs": 1, "p50_ms": ms, "p90_ms": ms, "p99_ms": ms, "mean_ms": ms}
    line = {"alpha": EMULATED["alpha_ms"], "beta": EMULATED["beta_ms"], "error": 0.0}
    curve = {"a": 0.0, "b": EMULATED["alpha_ms"], "c": EMULATED["beta_ms"], "error": 0.0}
    (model / "profile.json").write_text(json.dumps(
        {"format": 1, "version": 1, "model": "emulated", "model_version": "1",
         "batches": batches, "linear_ms": line, "quadratic_ms": curve}))
    return folder


def configuration(model, folder):
    if model == "emulated":
        repository, executor = emulated_repository(folder), "emulated"
    else:
        (folder / model).symlink_to(ROOT / "zoo" / "repository" / model)
        repository, executor = folder, "onnxruntime"
    return {"models": str(repository), "log_level": "warning",
            "workers": {"count": 1, "executor": executor},
            "services": {SERVICE: {"model": model}}}


class Bench:
    def __init__(self, served, slo_ms, inputs):
        self.server, self.slo_ms, self.inputs = served, slo_ms, inputs
        self.sent = 0

    def load(self, rate, seconds, seed=1):
        command = [server.BINARY, "load", "--url", f"127.0.0.1:{self.server.grpc}",
                   "--service", f"{SERVICE}:{rate:.3f}:{self.inputs}:{self.slo_ms}",
                   "--timeout-ms", str(self.slo_ms - WAY_MS), "--duration", str(seconds),
                   "--seed", str(seed), "--explain", "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        result = json.loads(done.stdout)
        self.sent += result["sent"]
        return result

    def capacity(self, seconds):
        """The highest rate with 99 % on time, within 5 %; the run time alone in ms."""
        alone = self.load(4, 4)["run_p50_ms"]
        low, high = 0.0, 1000 / alone
        while self._keeps_up(high, seconds):
            low, high = high, 2 * high
        while high / max(low, 1e-9) > 1.05:
            middle = (low + high) / 2 if low == 0 else (low * high) ** 0.5
            if self._keeps_up(middle, seconds):
                low = middle
            else:
                high = middle
        return low, alone

    def _keeps_up(self, rate, seconds):
        """A machine's stalls only ever hurt, so one good run of three is enough."""
        good = any(1 - self.load(rate, seconds, seed)["bad_rate"] >= GOOD_SHARE
                   for seed in (1, 2, 3))
        print(f"  {rate:8.1f}/s {'keeps up' if good else 'too much'}", file=sys.stderr)
        return good

    def watched_load(self, rate, seconds):
        """A load's result and the server's resident memory ten times a second, in MB."""
        samples, over = [], threading.Event()

        def watch():
            while not over.wait(0.1):
                samples.append(self.server.rss_mb())

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            return self.load(rate, seconds), samples
        finally:
            over.set()
            watcher.join()

    def ended_at_server(self):
        return sum(value for name, value in self.server.metrics().items()
                   if name.startswith("fermata_requests_total") and f'service="{SERVICE}"' in name)


def judge(bench, runs, alone, memory):
    """The four promises, each with the figure that it is judged by."""
    overload = runs["3.0"]
    accounted = all(run["lost"] == 0 and run["failed"] == 0 for run in runs.values())
    ended = bench.ended_at_server()
    half = len(memory) // 2
    growth = max(memory[half:]) - max(memory[:half])
    kept = overload["on_time_rps"] / max(run["on_time_rps"] for run in runs.values())
    last_moment = bench.slo_ms - WAY_MS - alone
    margin = overload["rejection_margin_min_ms"]
    return {
        "ends_once": {"good": accounted and ended == bench.sent, "sent": bench.sent,
                      "ended_at_server": ended},
        "memory": {"good": growth <= GROWTH_MB, "growth_mb": growth, "peak_mb": max(memory)},
        "on_time_kept": {"good": kept >= 0.9, "ratio": kept},
        "rejected_in_time": {"good": margin is not None and margin >= -LATE_BY_MS,
                            "least_margin_ms": margin, "p99_ms": overload["rejection_p99_ms"],
                            "last_moment_ms": last_moment},
    }


def draw(model, document):
    figure, (left, right) = plot.axes("offered / capacity", "", columns=2)
    ratios = [float(r) for r in document["runs"]]
    runs = list(document["runs"].values())
    left.plot(ratios, [r["offered_rps"] for r in runs], ":", color=plot.NEUTRAL, label="offered")
    left.plot(ratios, [r["on_time_rps"] for r in runs], "o-", label="on time")
    left.set_ylabel("requests/s")
    for key, label in (("p50_ms", "answers, p50"), ("p99_ms", "answers, p99"),
                       ("rejection_p99_ms", "rejections, p99")):
        right.plot(ratios, [r[key] for r in runs], "o-", label=label)
    right.axhline(document["slo_ms"], ls=":", color=plot.NEUTRAL, label="SLO")
    right.set_ylabel("ms from the scheduled arrival")
    right.set_ylim(bottom=0)
    for axis in (left, right):
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2, fontsize=8)
    plot.says(figure, "Beyond the capacity as many answers stay on time as at it, and requests are rejected before their deadline.")
    return plot.save(f"overload-{model}", figure, document)


def measure(model, seconds, search_seconds):
    slo_ms = (EMULATED if model == "emulated" else REAL)["slo_ms"]
    inputs = "" if model == "emulated" else ROOT / "zoo" / "data" / "digits-test.jsonl"
    with tempfile.TemporaryDirectory() as folder:
        with server.Server(configuration(model, pathlib.Path(folder))) as served:
            bench = Bench(served, slo_ms, inputs)
            capacity, alone = bench.capacity(search_seconds)
            runs, memory = {}, []
            for ratio in RATIOS:
                runs[str(ratio)], memory = bench.watched_load(ratio * capacity, seconds)
            checks = judge(bench, runs, alone, memory)
    return {"model": model, "slo_ms": slo_ms, "capacity_rps": capacity, "run_alone_ms": alone,
            "checks": checks, "runs": runs}


def show(document):
    rows = [[f"{float(ratio):.1f}x", run["offered_rps"], run["on_time_rps"], run["late"],
             run["rejected_deadline"], run["rejected_queue"], run["lost"] + run["failed"],
             run["mean_batch"] or 0, run["p99_ms"] or 0, run["rejection_p99_ms"] or 0]
            for ratio, run in document["runs"].items()]
    print(f"\n{document['model']}: {document['capacity_rps']:.1f}/s within {document['slo_ms']} ms, "
          f"{document['run_alone_ms']:.2f} ms an item alone")
    print(plot.table(["load", "offered/s", "on time/s", "late", "deadline", "queue", "bad",
                      "batch", "p99 ms", "rejection p99 ms"], rows))
    for name, check in document["checks"].items():
        print(f"{'ok ' if check['good'] else 'NOT'} {name}: "
              + ", ".join(f"{k} {v:.4g}" for k, v in check.items() if k != "good"))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="digits-cnn-large",
                        help="a model of the zoo that takes a digit, or emulated")
    parser.add_argument("--seconds", type=float, default=15, help="of each measured run")
    parser.add_argument("--search-seconds", type=float, default=5, help="of each step of the search")
    options = parser.parse_args()
    document = measure(options.model, options.seconds, options.search_seconds)
    show(document)
    print(draw(options.model, document), file=sys.stderr)
    return 0 if all(check["good"] for check in document["checks"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
