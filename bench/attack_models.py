#!/usr/bin/env python3
"""A hostile model costs others nothing: what it does to its process, and what a model beside it gets.

    make attack                                  # or, with build/fermata there:
    .deps/test/bin/python bench/attack_models.py [--only SIGSEGV,fork] [--seconds 4] [--record]

One server with two workers and models in processes of their own: a canary, and the models of bench/hostile_models.py. Then
the same at a worker of a cluster, whose clients are at a frontend.
The canary gets 50 requests a second with 500 ms each, first alone, then while a hostile model gets two requests at a
time. Prints a table; --record writes bench/results/attack_models.json. Exit code 1: the server ended or is not
ready again, a request had no end, more than 2 % of the canary's were not on time than alone, or their 99th percentile
was above 100 ms (500 ms beside runs that never end, which have both workers until they are stopped)."""

import argparse
import concurrent.futures
import json
import pathlib
import sys
import tempfile
import threading
import time

import numpy as np
import tritonclient.http

import hostile_models
import record
import server

sys.path.insert(0, str(server.ROOT / "tests" / "python"))
import parts  # noqa: E402

RATE, SLO_MS, MOST_LOST, HOSTILE_AT_ONCE = 50, 500, 0.02, 2
# Of the canary's 99th percentile. Two runs that last until they are stopped have both workers, so that it waits.
MOST_P99_MS, HELD_P99_MS, HOLD_WORKERS = 100, SLO_MS, ("endless", "endless_in_c", "memory", "calls", "large_calls")


def write_config(folder, attacks, run_limit_s, listen, workers, **more):
    """fermata.yaml, with the models that it names."""
    models, config = folder / "models", folder / "fermata.yaml"
    models.mkdir()
    (models / "canary").symlink_to(server.ROOT / "tests" / "data" / "repository" / "identity-fp32")
    hostile_models.write(models, attacks)
    config.write_text(json.dumps({
        "models": str(models), "log_level": "warning", "ready": "any", "listen": listen,
        "workers": workers | {"isolation": "process", "python": sys.executable, "run_limit_s": run_limit_s, "process_memory_mb": 512},
        "services": {"canary": {"slo_ms": SLO_MS}}} | more))
    return config


class Served(server.Started):
    def __init__(self, attacks, run_limit_s=0.3):
        self._folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self._folder.name)
        self.http, grpc, metrics = server.free_ports(3)
        self.log = folder / "log"
        config = write_config(folder, attacks, run_limit_s, {"http": self.http, "grpc": grpc, "metrics": metrics}, {"count": 2})
        self._start([server.BINARY, "serve", "--config", config], self.log)

    def client(self):
        return tritonclient.http.InferenceServerClient(f"127.0.0.1:{self.http}", network_timeout=60)

    def alive(self):
        return self._process.poll() is None


class Clustered(parts.Parts):
    """The models at a worker, and the clients at a frontend."""

    def __init__(self, attacks, run_limit_s=0.3):
        self._folder = tempfile.TemporaryDirectory()
        self.folder, self.parts = pathlib.Path(self._folder.name), []
        self.config = write_config(self.folder, attacks, run_limit_s, {"http": 0, "grpc": 0, "metrics": 0},
                                   {"types": [{"name": "far", "count": 2, "remote": True}]},
                                   cluster={"listen": "127.0.0.1:0", "frontends": "127.0.0.1:0"})
        scheduler = self.scheduler()
        self.front = self.frontend(scheduler)
        self.worker(scheduler, workers=2)
        scheduler.await_metric(2, "fermata_worker_serving")
        self.front.await_ready()

    def client(self):
        return tritonclient.http.InferenceServerClient(self.front.http, network_timeout=60)

    def alive(self):
        return all(part.process.poll() is None for part in self.parts)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self._folder.cleanup()


def request(value):
    one = tritonclient.http.InferInput("x", [1, 4], "FP32")
    one.set_data_from_numpy(np.full((1, 4), value, np.float32))
    return [one]


def ask(client, model, value):
    """How it ended: "" where it was answered."""
    try:
        client.infer(model, request(value))
        return ""
    except Exception as error:  # whatever the server says, or that it says nothing
        return str(error) or type(error).__name__


def canary(served, seconds):
    """Milliseconds of its requests, one at a time; None of those that were not answered."""
    took, due = [], time.monotonic()
    with served.client() as client:
        while len(took) < seconds * RATE:
            time.sleep(max(0.0, due - time.monotonic()))
            began = time.monotonic()
            took.append((time.monotonic() - began) * 1e3 if ask(client, "canary", 0) == "" else None)
            due = max(due + 1 / RATE, time.monotonic())
    return took


def on_time(took):
    return sum(one is not None and one <= SLO_MS for one in took) / len(took)


def p99(took):
    known = sorted(one for one in took if one is not None)
    return known[int(0.99 * (len(known) - 1))] if known else float("inf")


def attack(served, how, seconds):
    alone = canary(served, seconds / 2)
    stop, ends = threading.Event(), []

    def stranger():
        with served.client() as client:
            while not stop.is_set():
                ends.append(ask(client, how.lower(), 1))
                time.sleep(0.01)
    with concurrent.futures.ThreadPoolExecutor(HOSTILE_AT_ONCE) as pool:
        strangers = [pool.submit(stranger) for _ in range(HOSTILE_AT_ONCE)]
        beside = canary(served, seconds)
        stop.set()
        for one in strangers:
            one.result()
    with served.client() as client:
        ready = served.alive() and client.is_model_ready("canary")
    return {"attack": how, "what": hostile_models.ATTACKS[how], "asked": len(ends),
            "answered": sum(end == "" for end in ends), "says": next((end for end in ends if end), "")[:160],
            "without_end": sum("timed out" in end for end in ends), "ready": ready,
            "on_time": {"alone": on_time(alone), "beside": on_time(beside)},
            "p99_ms": {"alone": p99(alone), "beside": p99(beside)}}


def verdict(row):
    wrong = [] if row["ready"] else ["the server is not ready"]
    wrong += [f"{row['without_end']} requests had no end"] if row["without_end"] else []
    lost = row["on_time"]["alone"] - row["on_time"]["beside"]
    wrong += [f"the canary lost {lost:.1%}"] if lost > MOST_LOST else []
    most = HELD_P99_MS if row["attack"] in HOLD_WORKERS else MOST_P99_MS
    slow = row["p99_ms"]["beside"] > max(most, 3 * row["p99_ms"]["alone"])
    return wrong + ([f"the canary's p99 is above {most} ms"] if slow else [])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    attacks = arguments.only.split(",") if arguments.only else list(hostile_models.ATTACKS)
    rows, wrong = [], False
    for where in (Served, Clustered):
        with where(attacks) as served:
            for how in attacks:
                row = attack(served, how, arguments.seconds) | {"where": where.__name__.lower()}
                rows.append(row)
                wrong = wrong or bool(verdict(row))
                print(f"{row['where']:9} {how:14} {row['what']:38} canary on time {row['on_time']['alone']:6.1%} alone "
                      f"{row['on_time']['beside']:6.1%} beside, p99 {row['p99_ms']['alone']:6.1f} and "
                      f"{row['p99_ms']['beside']:6.1f} ms; {row['answered']} of {row['asked']} answered; "
                      f"{'; '.join(verdict(row)) or 'held'}", flush=True)
    if arguments.record and not arguments.only:
        record.write("attack_models", {"rows": rows})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
