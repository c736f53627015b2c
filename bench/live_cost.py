#!/usr/bin/env python3
"""What the live page costs, and how well a what-if knows what happened.

    bench/live_cost.py [recorder] [page] [what_if] [replay] [--write]

recorder  Its share of a server's processor time at 10,000 requests/s, and the memory that a server takes with it.
page      What a listener of /v2/live/events adds to that.
what_if   The page's usual questions about the last minute at 1,000 requests/s, asked while the server serves.
replay    A recorded minute simulated as it was, at 0.5, 1 and 1.5 times what the workers can do.

With --write each part puts its figures into bench/results/live_cost.json, and leaves the others'. Exits with 1 where a part
misses its target (TARGETS). Needs build/bench_recorder and
valgrind for `recorder`: what the threads that serve do for it is counted in instructions (callgrind), next to its own thread's.
"""

import argparse
import contextlib
import http.client
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import record
from server import BINARY, ROOT, Server, emulated_model, write_profile

TARGETS = {"page": 0.02, "recorder": 0.02, "what_if_s": 5, "replay": 0.05}
FIGURES = {"page": ("page", "added"), "recorder": ("recorder", "added"), "what_if_s": ("what_if", "took_s"), "replay": ("replay", "off")}
MODELS = ROOT / "tests" / "data" / "repository"
ZOO = ROOT / "zoo"


def load(server, services, seconds, *more):
    words = [word for service in services for word in ("--service", service)]
    return subprocess.Popen([BINARY, "load", "--url", f"127.0.0.1:{server.grpc}", "--duration", str(seconds), "--warmup", "0",
                             "--json", *words, *more], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def callgrind(folder, command):
    return ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", *map(str, command)]


OBSERVING = ("Job::observe_coming", "Job::observe_end", "Driver::observe_bound", "Driver::observe_end")  # on threads that serve


def inclusive(text, function):
    """A function's instructions with what it calls; annotations have a row for each file that it is made of."""
    rows = re.findall(rf"^ *([\d,]+) .*:fermata::\w+::{function}\(", text, re.M)
    return max((int(row.replace(",", "")) for row in rows), default=0)


def one_model(folder):
    """A repository of one tiny model whose profile is there, so that nothing is measured under valgrind."""
    repository = folder / "models"
    shutil.copytree(MODELS / "dense", repository / "dense")
    write_profile(repository / "dense", {1: 0.02, 8: 0.03})
    return repository


def in_engine(folder, requests):
    """Instructions of a whole run of bench_recorder, of the recorder's own thread, and of what others do for it."""
    command = [ROOT / "build" / "bench_recorder", one_model(folder), BINARY, requests, "record"]
    done = subprocess.run(callgrind(folder, command), capture_output=True, text=True, check=True)
    said = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--show-percs=no", "--threshold=100", folder / "out"],
                          capture_output=True, text=True, check=True).stdout
    return {"all": int(re.search(r"Collected : (\d+)", done.stderr)[1]), "thread": inclusive(said, "Recorder::run"),
            "serving": sum(inclusive(said, name) for name in OBSERVING)}


def of_one_request(few=5_000, many=25_000):
    """What a run takes besides its requests is in both counts, and goes."""
    counts = []
    for requests in (few, many):
        with tempfile.TemporaryDirectory() as folder:
            counts.append(in_engine(pathlib.Path(folder), requests))
    return {name: (counts[1][name] - counts[0][name]) / (many - few) for name in counts[0]}


RECORDER, PAGE = "recorder", "live page"  # as their threads are called


def thread_seconds(pid, names):
    """Processor time of some threads, and of all."""
    some = every = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            took = int((task / "schedstat").read_text().split()[0]) / 1e9
            every += took
            some += took if (task / "comm").read_text().strip() in names else 0
    return some, every


def shares(server, seconds, *names):
    """Of the processor time of a server, what those threads take."""
    before = thread_seconds(server.pid, names)
    time.sleep(seconds)
    some, every = (b - a for a, b in zip(before, thread_seconds(server.pid, names)))
    return some / every


def filled(rate=20_000, seconds=15):
    """Memory of the recorder's records beside its limit, in a server with a small one at a high rate."""
    sizes = {}
    for name, recorder in (("off", "off"), ("8 MB", {"memory_mb": 8}), ("64 MB", {"memory_mb": 64})):
        with tempfile.TemporaryDirectory() as folder, Server(
                {"models": str(one_model(pathlib.Path(folder))), "workers": {"count": 1}, "recorder": recorder}) as server:
            load(server, [f"dense:{rate}"], seconds).wait()
            sizes[name] = server.rss_mb()
    return sizes


def recorder(runs=1, rate=10_000, seconds=10, turns=3):
    """Its own thread's share of the server, and what the threads that serve do for it, by their instructions."""
    engine = [of_one_request() for _ in range(runs)]
    times = statistics.median((row["thread"] + row["serving"]) / row["thread"] for row in engine)
    with Server({"models": str(MODELS), "workers": {"count": 1}}) as server:
        sending = load(server, [f"dense:{rate}"], (turns + 2) * seconds)
        time.sleep(seconds)
        of_threads = [shares(server, seconds, RECORDER) for _ in range(turns)]
        sending.terminate()
        sending.wait()
    return {"instructions_per_request": engine, "rate_rps": rate, "threads_share": of_threads, "server_rss_mb": filled(),
            "added": times * statistics.median(of_threads)}


class Listener(contextlib.AbstractContextManager):
    """Reads events as a page would, and throws them away."""

    def __init__(self, port):
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self._connection.request("GET", "/v2/live/events")
        self._socket = self._connection.sock  # which the reply takes from the connection
        self._reply = self._connection.getresponse()
        self.bytes = 0
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self):
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException, AttributeError):
            while data := self._reply.read1(1 << 16):
                self.bytes += len(data)

    def __exit__(self, *_):
        self._socket.shutdown(2)
        self._thread.join()
        self._reply.close()


def answered(server):
    return sum(value for name, value in server.metrics().items()
               if name.startswith("fermata_requests_total") and 'outcome="on_time"' in name)


def page(rate=10_000, turns=5, seconds=6):
    """What a listener adds to the share of those threads, in turns without and with one."""
    with Server({"models": str(MODELS), "workers": {"count": 1}, "services": {"dense": {"slo_ms": 1000}}}) as server:
        sending = load(server, [f"dense:{rate}"], (2 * turns + 2) * seconds)
        time.sleep(seconds)
        rows = []
        for _ in range(turns):
            row = {}
            for name in ("without", "with"):
                with Listener(server.http) if name == "with" else contextlib.nullcontext() as listener:
                    before, start = answered(server), time.monotonic()
                    share = shares(server, seconds, RECORDER, PAGE)
                    row[name] = {"rps": (answered(server) - before) / (time.monotonic() - start), "share": share}
            row["events_kb_s"] = listener.bytes / seconds / 1000
            rows.append(row)
        sending.terminate()
        sending.wait()
    ratios = [row["with"]["share"] - row["without"]["share"] for row in rows]
    return {"rate_rps": rate, "turns": rows, "added": statistics.median(ratios), "added_from_to": [min(ratios), max(ratios)]}


def ask(server, question):
    start = time.monotonic()
    request = urllib.request.Request(f"http://127.0.0.1:{server.http}/v2/live/what_if", json.dumps(question).encode())
    with urllib.request.urlopen(request, timeout=600) as reply:
        return json.load(reply), time.monotonic() - start


def usual(workers):
    """What web/verdict.ts asks."""
    return [{"workers": workers + 1}, {"workers": workers + 2}, {"workers": workers - 1}, {"load": 2}, {"load": 0.5},
            {"scheduler": "edf"}, {"scheduler": "eager"}]


def outcomes(server):
    counts = {}
    for name, value in server.metrics().items():
        if found := re.match(r'fermata_requests_total\{.*outcome="(\w+)"', name):
            counts[found[1]] = counts.get(found[1], 0) + value
    return counts


def lost(before, after):
    grown = {key: after.get(key, 0) - before.get(key, 0) for key in after}
    return sum(grown.values()) - grown["on_time"], sum(grown.values())


def what_if(rate=1000, minute=62, times=3):
    with tempfile.TemporaryDirectory() as folder:
        emulated_model(pathlib.Path(folder), "m", 1, 4, 16)
        with Server({"models": folder, "workers": {"count": 4, "executor": "emulated"}, "services": {"m": {"slo_ms": 50}}}) as server:
            sending = load(server, [f"m:{rate}"], 2 * minute + 60 * times)
            time.sleep(minute)
            start = outcomes(server)
            time.sleep(20)
            quiet = lost(start, outcomes(server))
            rows = []
            for _ in range(times):
                before = outcomes(server)
                answer, took = ask(server, {"seconds": 60, "cases": usual(4)})
                rows.append({"took_s": took, "requests": answer["recorded"]["requests"], "runs": len(answer["cases"]) + 1,
                             "error": answer["error"], "lost": lost(before, outcomes(server))})
            one = [ask(server, {"seconds": 60, "cases": [{"workers": 6}]})[1] for _ in range(times)]
            sending.terminate()
            sending.wait()
    return {"rate_rps": rate, "quiet": {"seconds": 20, "lost": quiet}, "asked": rows, "one_case_s": one,
            "took_s": statistics.median(row["took_s"] for row in rows)}


SERVICES = {
    "digits": {"model": "digits-cnn-large", "slo_ms": 50},
    "handwriting": {"kind": "variants", "variants": ["handwriting-small", "handwriting-large"], "slo_ms": 50,
                    "labelled": {"features": str(ZOO / "data/handwriting/calibration-features.npy"),
                                 "labels": str(ZOO / "data/handwriting/calibration-labels.npy")}},
}
REAL = ["digits-cnn-large", "handwriting-small", "handwriting-large"]


def replayed(config, rates, seconds):
    with Server(config) as server:
        sending = load(server, [f"{name}:{rate}" for name, rate in rates.items()], seconds + 5)
        time.sleep(seconds)
        answer, _ = ask(server, {"seconds": seconds - 2})
        sending.terminate()
        sending.wait()
    happened, made = answer["recorded"], answer["replayed"]
    return {"rates_rps": rates, "recorded": happened, "replayed": made,
            "off": made["on_time"] / max(happened["on_time"], 1e-9) - 1}


def replay(loads=(0.5, 1, 1.5), seconds=30):
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "made").mkdir()
        emulated_model(folder / "made", "m", 1, 4, 16)
        (folder / "real").mkdir()
        for model in REAL:
            (folder / "real" / model).symlink_to(ZOO / "repository" / model)
        made = {"models": str(folder / "made"), "workers": {"count": 2, "executor": "emulated"}, "services": {"m": {"slo_ms": 50}}}
        real = {"models": str(folder / "real"), "workers": {"count": 1, "threads": 1}, "services": SERVICES}
        for share in loads:
            rows.append({"what": "emulated", "load": share} | replayed(made, {"m": 1500 * share}, seconds))
            rows.append({"what": "demo zoo", "load": share} | replayed(real, {"digits": 100 * share, "handwriting": 150 * share}, seconds))
    return {"rows": rows, "off": max(abs(row["off"]) for row in rows)}


def missed(measured):
    return [f"{part}: {key} is {measured[part][key]:.3g}, at most {TARGETS[name]} is asked" for name, (part, key) in FIGURES.items()
            if part in measured and measured[part][key] > TARGETS[name]]


PARTS = {"recorder": recorder, "page": page, "what_if": what_if, "replay": replay}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--write", action="store_true", help="bench/results/live_cost.json")
    arguments = parser.parse_args()
    before = record.read("live_cost")
    measured = {}
    for part in arguments.parts or PARTS:
        measured[part] = PARTS[part]()
        print(json.dumps({part: measured[part]}, indent=1))
    if arguments.write:
        kept = {key: before[key] for key in PARTS if key in before}
        record.write("live_cost", {"targets": TARGETS} | kept | measured, before=record.left(before))
    wrong = missed(measured)
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
