#!/usr/bin/env python3
"""What it costs and what it brings that frontend, scheduler and worker are three processes (docs/cluster.md).

    make fermata && scripts/deps.sh test && .deps/test/bin/python bench/parts.py [--rounds 9] [--kills 9]

On one host, over loopback and without TLS. `one`: `fermata serve` with one worker of its own; `three`: a frontend, a
scheduler and a worker, each a process. Rounds take turns; figures are medians of rounds.

- `added_us`: what the median of a request alone takes longer over gRPC through three than through one.
- `requests_per_second` with 64 requests at a time, and how many requests were in one message to the scheduler.
- `tensor_bytes_through_the_scheduler`, of all of them.
- `takeover`: two schedulers with a lock, clients that ask one after another with 5 s each, and `kill -9` of the active
  one: the longest time without an answer (`gap_s`), and what was lost. A model whose runs take 20 ms by the clock.

Writes bench/results/parts.json. Needs h2load (Debian's nghttp2-client)."""

import argparse
import contextlib
import json
import pathlib
import statistics
import sys
import tempfile
import threading
import time

import front_end
import record
import server

sys.path.insert(0, str(server.ROOT / "tests" / "python"))
import parts  # noqa: E402

CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
recorder: off
cluster: {{listen: '127.0.0.1:0', frontends: '127.0.0.1:0', silence_ms: 10000}}
workers: {{types: [{{name: far, count: 1, remote: true}}]}}
"""
ALONE = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
recorder: off
workers: {{count: 1}}
"""


class Plain(parts.Parts):
    """Parts of any configuration."""

    def __init__(self, folder, text):
        folder.mkdir()
        self.folder, self.parts, self.config = folder, [], folder / "fermata.yaml"
        (folder / "models").mkdir()
        (folder / "models" / front_end.MODEL).symlink_to(server.ROOT / "tests" / "data" / "repository" / front_end.MODEL)
        self.config.write_text(text.format(models=folder / "models"))


@contextlib.contextmanager
def started(made):
    try:
        yield made
    finally:
        made.kill()


def port(part):
    return part.grpc.rsplit(":", 1)[1]


def compare(folder, rounds, requests):
    protocol = front_end.grpc_protocol()
    with started(Plain(folder / "one", ALONE)) as one, started(Plain(folder / "three", CONFIG)) as three:
        alone = one.start("serve", "serve", "--config", one.config).ready()
        scheduler = three.scheduler()
        frontend = three.frontend(scheduler)
        three.worker(scheduler, workers=1)
        for part in (alone, frontend):
            part.await_ready()
        rows = []
        for _ in range(rounds):
            row = {}
            for name, part in (("one", alone), ("three", frontend)):
                row[f"{name}_us"] = protocol.load(port(part), requests // 10, 1, 1)[1]
                row[f"{name}_rps"] = protocol.load(port(part), requests, 8, 8)[0]
            rows.append(row)
        median = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        return {
            "added_us": statistics.median(row["three_us"] - row["one_us"] for row in rows),
            "median_us": {name: median[f"{name}_us"] for name in ("one", "three")},
            "requests_per_second": {name: median[f"{name}_rps"] for name in ("one", "three")},
            "requests": scheduler.metric("fermata_frontend_requests_total"),
            "tensor_bytes_through_the_scheduler": sum(
                scheduler.metric(f"fermata_{part}_tensor_bytes_total") for part in ("frontend", "host")),
            "rounds": rows}


def longest_gap(asking, killed):
    times = sorted(each for each in asking.answered if each > killed - 1)
    return max(b - a for a, b in zip(times, times[1:]))


class Asking:
    """Clients that ask one after another, and when each was answered."""

    def __init__(self, frontend, clients=8):
        self.frontend, self.stopping, self.answered, self.lost = frontend, threading.Event(), [], []
        self.threads = [threading.Thread(target=self.run) for _ in range(clients)]
        for thread in self.threads:
            thread.start()

    def run(self):
        import numpy
        import tritonclient.http
        with self.frontend.client() as client:
            index = tritonclient.http.InferInput("index", [1, 1], "INT64")
            index.set_data_from_numpy(numpy.array([[2]], numpy.int64))
            while not self.stopping.is_set():
                try:
                    answer = client.infer("gather", [index], timeout=5_000_000).as_numpy("value").tolist()
                    (self.answered if answer == [[20]] else self.lost).append(time.monotonic())
                except Exception as failure:  # counted
                    self.lost.append(str(failure))

    def end(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()


def take_over(folder):
    with started(parts.Parts(folder, run_ms=20, more=f"  lock: {folder}/lock")) as made:
        active, standby = made.scheduler("active"), made.scheduler("standby")
        frontend = made.frontend(active, standby)
        for name in ("first", "second"):
            made.worker(active, standby, name=name)
        active.await_metric(4, "fermata_worker_serving")
        frontend.await_ready()
        asking = Asking(frontend)
        time.sleep(2)
        killed = time.monotonic()
        active.kill()
        time.sleep(3)
        asking.end()
        asked = frontend.metric("fermata_requests_total")
        return {"gap_s": longest_gap(asking, killed), "answered": len(asking.answered), "lost": len(asking.lost),
                "answered_twice": asked - len(asking.answered) - len(asking.lost)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--kills", type=int, default=9)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        result = compare(folder, arguments.rounds, arguments.requests)
        kills = []
        for i in range(arguments.kills):
            (folder / f"kill{i}").mkdir()
            kills.append(take_over(folder / f"kill{i}"))
    result["takeover"] = {"gap_s": statistics.median(kill["gap_s"] for kill in kills),
                          "longest_gap_s": max(kill["gap_s"] for kill in kills),
                          "lost": sum(kill["lost"] for kill in kills), "kills": kills}
    print(json.dumps(result, indent=1))
    record.write("parts", result)


if __name__ == "__main__":
    main()
