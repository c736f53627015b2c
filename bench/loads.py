#!/usr/bin/env python3
"""What one model's clients notice of another that is loaded, profiled and unloaded.

    make build && scripts/deps.sh test && .deps/test/bin/python bench/loads.py [--rounds 3] [--loads 10]

A small model gets 100 requests a second over one gRPC connection, alone, then while another of 100 MB is loaded,
which measures it, and unloaded ten times; in turns, with models on threads of the server and in processes of their
own. Prints the 99th percentiles and what memory the server and its processes have before and after; without a
recorder, whose memory grows with every request until it is full, whether anything is loaded or not. Writes
bench/results/loads.json, and exits with 1 where with processes the 99th percentile or the memory is over 5 % more."""

import argparse
import pathlib
import statistics
import sys
import tempfile
import threading
import time

import apart
import numpy as np
import record
import server
import tritonclient.grpc

RATE, SETTLE_S, MOST = 100, 1.0, 1.05


def processes(pid):
    own = {pid}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        children = (task / "children").read_text().split()
        own |= {p for child in children for p in processes(int(child))}
    return own


def memory_mb(pid):
    """Of the server and its processes, each page counted once for those that share it. Without pages of files: how
    much of these counts here depends on who else has them open."""
    total = 0
    for process in processes(pid):
        for line in pathlib.Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
                total += int(line.split()[1])
    return total / 1024


class Served(server.Started):
    def __init__(self, isolation):
        self._folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self._folder.name)
        models = folder / "models"
        apart.mean(models, "small", 256)
        apart.layers(models, "mb100", 5120, 1)
        self.http, self.grpc, metrics = server.free_ports(3)
        config = folder / "fermata.yaml"
        config.write_text(f"models: {models}\nlisten: {{http: {self.http}, grpc: {self.grpc}, metrics: {metrics}}}\n"
                          f"workers: {{count: 1, isolation: {isolation}}}\nlog_level: warning\nrecorder: off\n")
        self._start([server.BINARY, "serve", "--config", config], folder / "log")


def latencies(client, until):
    one = tritonclient.grpc.InferInput("x", [1, 256], "FP32")
    one.set_data_from_numpy(np.zeros((1, 256), np.float32))
    took, due = [], time.monotonic()
    while not until():
        time.sleep(max(0.0, due - time.monotonic()))
        began = time.monotonic()
        client.infer("small", [one])
        took.append((time.monotonic() - began) * 1e3)
        due = max(due + 1 / RATE, began)
    return took


def p99(took):
    return sorted(took)[int(0.99 * (len(took) - 1))]


def measure(isolation, loads):
    with Served(isolation) as served, tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{served.grpc}") as client, \
            tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{served.grpc}") as operator:
        operator.unload_model("mb100")
        operator.load_model("mb100")
        operator.unload_model("mb100")
        time.sleep(SETTLE_S)
        before, done, took_s = memory_mb(served.pid), threading.Event(), []

        def reload():
            for _ in range(loads):
                began = time.monotonic()
                operator.load_model("mb100")
                operator.unload_model("mb100")
                took_s.append(time.monotonic() - began)
            done.set()
        thread = threading.Thread(target=reload)
        thread.start()
        beside = latencies(client, done.is_set)
        thread.join()
        end = time.monotonic() + sum(took_s)
        alone = latencies(client, lambda: time.monotonic() > end)
        time.sleep(SETTLE_S)
        return {"alone_p99_ms": p99(alone), "beside_p99_ms": p99(beside), "ratio": p99(beside) / p99(alone),
                "requests": len(beside), "load_s": statistics.median(took_s),
                "memory_before_mb": before, "memory_after_mb": memory_mb(served.pid)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loads", type=int, default=10)
    arguments = parser.parse_args()
    rounds = {"thread": [], "process": []}
    for _ in range(arguments.rounds):
        for isolation, rows in rounds.items():
            rows.append(measure(isolation, arguments.loads))
    rows = {isolation: {key: statistics.median(row[key] for row in all_of) for key in all_of[0]}
            for isolation, all_of in rounds.items()}
    for isolation, row in rows.items():
        print(f"{isolation:8} p99 {row['alone_p99_ms']:7.3f} ms alone, {row['beside_p99_ms']:7.3f} beside "
              f"({row['ratio']:.2f}); a load {row['load_s']:.2f} s; memory {row['memory_before_mb']:.0f} MiB, then "
              f"{row['memory_after_mb']:.0f}")
    record.write("loads", {"rows": rows})
    process = rows["process"]
    return 1 if process["ratio"] > MOST or process["memory_after_mb"] > MOST * process["memory_before_mb"] else 0


if __name__ == "__main__":
    sys.exit(main())
