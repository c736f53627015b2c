#!/usr/bin/env python3
"""Beside a real Triton: the same models, the same requests, the same machine, the same run.

    scripts/deps.sh bench && make bench BENCHES=triton      or     .deps/bench/bin/python bench/triton.py [PART...]

Parts: `overload`, a model of 20 ms in batches of 4 and deadlines of 50 ms, offered 0.5 to 3 times its
capacity; `shared`, two different models on one worker; `mixed`, deadlines of 50 and 200 ms on one model;
`idle`, a tiny model at concurrency 1 to 64 over gRPC and HTTP; `protocol`, the same good and bad requests to
both. Triton has whichever of some queue policies does best at each load. Load is open loop (`fermata load`),
but for `idle`, which is closed loop (h2load). Emulated models wait by the clock in both servers; real ones run
on the same ONNX Runtime. Writes bench/results/triton.json and .png; exits with 1 where a figure is missed.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import front_end
import drawings
import plot
import record
import triton_protocol
from server import BINARY, ROOT, Server, emulated_model
from triton_server import Triton, version

WAY_MS = 2          # of each deadline, kept for the way: servers are told the rest
LOADS = (0.5, 0.8, 1.0, 1.5, 2.0, 3.0)
FAST = {"name": "fast", "alpha_ms": 0.0, "beta_ms": 4.0, "max_batch": 8, "slo_ms": 50}
SLOW = {"name": "slow", "alpha_ms": 0.0, "beta_ms": 20.0, "max_batch": 4, "slo_ms": 50}
PARTS = ("overload", "shared", "mixed", "idle", "protocol")


def policies(slack_ms):
    """Triton's queue policies that are tried, `slack_ms` being what a deadline leaves for the queue."""
    found = {"none": {}, "queue 4": {"queue": 4}, "queue 8": {"queue": 8}}
    for share in (0.3, 0.6, 0.9):
        timeout = {"timeout_ms": share * slack_ms}
        found[f"timeout {share} of the slack"] = timeout
        found[f"timeout {share} of the slack, queue 8"] = timeout | {"queue": 8}
    return found


def capacity(model):
    return model["max_batch"] / (model["alpha_ms"] * model["max_batch"] + model["beta_ms"]) * 1000


class Emulated:
    """Models on one worker in both servers; `streams` are (model, share of its capacity, SLO)."""

    part = piece = None  # of what main() was asked for

    def __init__(self, folder, models, streams, seconds):
        self.folder, self.models, self.streams, self.seconds = folder, models, streams, seconds
        for model in models:
            emulated_model(folder, *(model[k] for k in ("name", "alpha_ms", "beta_ms", "max_batch")))

    def fermata(self):
        return Server({"models": str(self.folder), "log_level": "error",
                       "workers": {"count": 1, "executor": "emulated"}})

    def triton(self, policy):
        with self.fermata() as served:
            metadata = {m["name"]: served.get(f"/v2/models/{m['name']}") for m in self.models}
        return Triton({m["name"]: (self.folder / m["name"] / "1", metadata[m["name"]], m["max_batch"],
                                   policy[m["name"]]) for m in self.models})

    def load(self, server, load, told_ms):
        """`told_ms` gives what a server is told of a stream."""
        services = [{"name": m["name"], "rate_rps": load * share * capacity(m), "slo_ms": slo,
                     "timeout_ms": told_ms(m, slo)} for m, share, slo in self.streams]
        document = {"url": f"127.0.0.1:{server.grpc}", "duration_s": self.seconds, "drain_s": 5, "warmup_s": 1,
                    "services": services}
        file = self.folder.parent / "load.json"
        file.write_text(json.dumps(document))
        done = subprocess.run([BINARY, "load", file, "--json"], capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            sys.exit(done.stderr)
        return json.loads(done.stdout)

    def curve(self, server, loads, told_ms):
        return {str(load): self.load(server, load, told_ms) for load in loads}

    def search(self, candidates, loads):
        """What Triton has on time with each of the policies."""
        tried = {}
        for name, policy in candidates.items():
            with self.triton(policy) as served:
                found = self.curve(served, loads, for_the_queue)
            tried[name] = {load: on_time(run) for load, run in found.items()}
            print(name, tried[name], file=sys.stderr)
        return tried

    def both(self, candidates, loads=LOADS, searched=(1.5, 3.0), kept=2):
        """Fermata at all loads, and the policies that are best at the searched ones."""
        file = ROOT / "build" / f"triton-{self.part}.json"
        tried = json.loads(file.read_text()) if self.piece == "rest" else self.search(candidates, searched)
        if self.piece == "search":
            file.write_text(json.dumps(tried))
            sys.exit()
        with self.fermata() as served:
            runs = {"fermata": self.curve(served, loads, lambda _, slo: slo - WAY_MS)}
        best = {name for load in searched for name in sorted(tried, key=lambda n: -tried[n][str(load)])[:kept]}
        for name in sorted(best | {"none"}):
            with self.triton(candidates[name]) as served:
                runs[name] = self.curve(served, loads, for_the_queue)
        return {"searched": tried, "runs": runs}


def for_the_queue(model, slo_ms):
    """Triton's timeouts cover queueing only."""
    return max(1, slo_ms - model["beta_ms"] - WAY_MS)


def on_time(run):
    return run["on_time"] / run["offered"]


def best_of(runs, load, value):
    return max(value(run[str(load)]) for name, run in runs.items() if name != "fermata")


def overload(folder, seconds):
    model = SLOW
    bench = Emulated(folder, [model], [(model, 1.0, model["slo_ms"])], seconds)
    candidates = {n: {"slow": p} for n, p in policies(model["slo_ms"] - model["beta_ms"]).items()}
    found = bench.both(candidates)
    rows, checks = [], {}
    for load in LOADS:
        ours = found["runs"]["fermata"][str(load)]
        theirs = best_of(found["runs"], load, lambda r: r["on_time_rps"])
        rows.append([f"{load}x", ours["offered_rps"], ours["on_time_rps"], theirs,
                     ours["on_time_rps"] / max(theirs, 1e-9), ours["rejection_p99_ms"] or 0])
        needed = 1.2 if load >= 1.5 else 1.0
        checks[f"{load}x: on time over the best of Triton's"] = (
            ours["on_time_rps"] / max(theirs, 1e-9), needed)
        if load >= 1.5:
            checks[f"{load}x: on time over capacity"] = (ours["on_time_rps"] / capacity(model), 0.95)
            # A request can start until SLO - run - way after it arrived; then its end is known.
            known = model["slo_ms"] - model["beta_ms"] - WAY_MS
            checks[f"{load}x: ms left of 5 when 99 % of rejections were there"] = (
                known + 5 - (ours["rejection_p99_ms"] or 0), 0)
    print(plot.table(["load", "offered/s", "fermata/s", "best Triton/s", "ratio", "rejected p99 ms"], rows))
    return found | {"checks": checks}


def by_stream(bench, found, loads, names):
    rows, checks = [], {}
    for load in loads:
        runs = found["runs"]
        best = max((n for n in runs if n != "fermata"), key=lambda n: on_time(runs[n][str(load)]))
        for i, name in enumerate(names):
            ours, theirs = (on_time(runs[n][str(load)]["services"][i]) for n in ("fermata", best))
            rows.append([f"{load}x {name}", ours, theirs, best])
            checks[f"{load}x: {name}, on-time share less Triton's"] = (ours - theirs, 0.0)
    print(plot.table(["load", "fermata", "best Triton", "its policy"], rows))
    return found | {"checks": checks}


def shared(folder, seconds):
    fast, slow = FAST, SLOW | {"slo_ms": 200}
    bench = Emulated(folder, [fast, slow], [(fast, 0.5, 50), (slow, 0.5, 200)], seconds)
    names = policies(1)
    candidates = {n: {m["name"]: policies(m["slo_ms"] - m["beta_ms"] - 20)[n] for m in (fast, slow)} for n in names}
    loads = (0.5, 1.0, 1.5, 2.0)
    return by_stream(bench, bench.both(candidates, loads, (1.0, 2.0)), loads, ["fast, 50 ms", "slow, 200 ms"])


def mixed(folder, seconds):
    bench = Emulated(folder, [SLOW], [(SLOW, 0.5, 50), (SLOW, 0.5, 200)], seconds)
    candidates = {n: {"slow": p} for n, p in policies(30).items()}
    candidates["timeouts of the requests"] = {"slow": {"timeout_ms": 180, "override": True}}
    candidates["timeouts of the requests, queue 16"] = {"slow": {"timeout_ms": 180, "override": True, "queue": 16}}
    loads = (0.5, 1.0, 1.5, 2.0)
    return by_stream(bench, bench.both(candidates, loads, (1.0, 2.0)), loads, ["50 ms", "200 ms"])


def tiny(folder):
    """Both servers on the test model `dense`, one matrix product."""
    source = ROOT / "tests/data/repository" / front_end.MODEL
    (folder / front_end.MODEL).symlink_to(source)
    config = {"models": str(folder), "log_level": "error", "workers": {"count": 1, "threads": 1}}
    with Server(config) as served:
        metadata = served.get(f"/v2/models/{front_end.MODEL}")
    return Server(config), Triton({front_end.MODEL: (source / "1", metadata, 64, {})})


def idle(folder, requests, rounds=5):
    found, rows, checks = {}, [], {}
    fermata, triton = tiny(folder)
    with fermata, triton:
        for protocol in front_end.PROTOCOLS:
            for concurrency in (1, 4, 16, 64):
                connections = min(concurrency, 8) if protocol.name == "grpc" else concurrency
                streams = concurrency // connections
                count = max(200, int(requests * min(1, concurrency / 16)))
                runs = {"fermata": [], "triton": []}
                for _ in range(rounds):  # in turns
                    for name, served in (("fermata", fermata), ("triton", triton)):
                        port = served.grpc if protocol.name == "grpc" else served.http
                        rps, p50 = protocol.load(port, count, connections, streams)
                        runs[name].append({"rps": rps, "p50_us": p50})
                ours, theirs = ({k: statistics.median(r[k] for r in runs[n]) for k in ("rps", "p50_us")}
                                for n in ("fermata", "triton"))
                found[f"{protocol.name} {concurrency}"] = runs
                rows.append([f"{protocol.name} {concurrency}", ours["rps"], theirs["rps"], ours["rps"] / theirs["rps"],
                             ours["p50_us"], theirs["p50_us"]])
                checks[f"{protocol.name}, concurrency {concurrency}: requests/s over Triton's"] = (
                    ours["rps"] / theirs["rps"], 1.0)
                checks[f"{protocol.name}, concurrency {concurrency}: Triton's p50 over ours"] = (
                    theirs["p50_us"] / ours["p50_us"], 1.0)
    print(plot.table(["protocol, concurrency", "fermata/s", "Triton/s", "ratio", "p50 µs", "Triton's"], rows))
    return {"rounds": found, "checks": checks}


def protocol(folder, _):
    fermata, triton = tiny(folder)
    with fermata, triton:
        compared = triton_protocol.compare(fermata, triton, front_end.MODEL)
    unexplained = [row["case"] for row in compared if row["differs"] and not row["on_purpose"]]
    print(plot.table(["case", "differs in", "said in docs/protocol.md"],
                     [[r["case"], ", ".join(r["differs"]), "yes" if r["on_purpose"] else "NO"]
                      for r in compared if r["differs"]]))
    return {"cases": len(compared), "differing": [r for r in compared if r["differs"]], "checks": {"differences that docs/protocol.md does not name": (-len(unexplained), 0)}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=PARTS, metavar="PART")
    parser.add_argument("--seconds", type=float, default=8, help="of each open-loop run")
    parser.add_argument("--requests", type=int, default=20_000, help="of each closed-loop run")
    parser.add_argument("--piece", choices=("search", "rest"),
                        help="of one of the first three parts: only the search for Triton's best policies, whose outcome "
                             "stays in build/, or all that comes after it")
    arguments = parser.parse_args()
    if arguments.piece and (len(arguments.parts) != 1 or arguments.parts[0] not in PARTS[:3]):
        parser.error(f"--piece is of one of {', '.join(PARTS[:3])}")
    for part in set(arguments.parts) - set(PARTS):
        parser.error(f"there is no part {part}, only {', '.join(PARTS)}")
    found = {}
    Emulated.piece = arguments.piece
    for part in arguments.parts:
        print(f"\n{part}")
        Emulated.part = part
        with tempfile.TemporaryDirectory() as folder:
            repository = pathlib.Path(folder) / "models"
            repository.mkdir()
            found[part] = globals()[part](repository, arguments.requests if part == "idle" else arguments.seconds)
    before = record.read("triton")
    kept = {p: before[p] for p in PARTS if p in before and p not in found}
    missed = [f"{name}: {value:.3g}, at least {least} is asked" for part in (kept | found).values()
              for name, (value, least) in part["checks"].items() if value < least]
    document = {"missed": missed, **kept, **found}
    print(plot.save("triton", drawings.triton(kept | found), document, triton=version(),
                    before=record.left(before) if kept else None))
    print("\n".join(f"MISSED: {m}" for m in missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
