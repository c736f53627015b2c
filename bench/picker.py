#!/usr/bin/env python3
"""`fermata picker` behind a real Envoy, next to Envoy's own round robin: two unmodified servers, the same requests.

    scripts/deps.sh bench envoy && .deps/bench/bin/python bench/picker.py [--servers triton|fermata] [--rounds 3] [--loads 0.6 1.5]

Each server works off one queue in batches of up to 4, of 20 ms (by the clock, whatever the machine), and knows of no
deadline; an answer counts within 100 ms of when its request was due. Load is open loop (`fermata load`), over gRPC, in turns through
the picker and through round robin. Without real Tritons (`--servers fermata`) the servers are Fermatas with the scheduler `eager`.
Writes bench/results/picker.json and .png; exits with 1 where the picker has less on time than round robin, or less than 1.2 times as
much from 1.2 of the capacity on.
"""

import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import drawings
import plot
import record
import triton_server
from server import BINARY, ROOT, Server, emulated_model

sys.path.append(str(ROOT / "tests/python"))
import envoy  # noqa: E402

MODEL = {"name": "m", "alpha_ms": 0.0, "beta_ms": 20.0, "max_batch": 4}
SLO_MS = 100
SERVERS = 2
CAPACITY = SERVERS * MODEL["max_batch"] / MODEL["beta_ms"] * 1000
LOADS = (0.6, 1.0, 1.2, 1.5)
NEEDED = {load: 1.2 if load >= 1.2 else 1.0 for load in LOADS}


def fermata(folder):
    return Server({"models": str(folder), "log_level": "error", "scheduler": "eager",
                   "workers": {"count": 1, "executor": "emulated"}})


def triton(folder):
    with fermata(folder) as served:
        metadata = served.get(f"/v2/models/{MODEL['name']}")
    return triton_server.Triton({MODEL["name"]: (folder / MODEL["name"] / "1", metadata, MODEL["max_batch"], {})})


def run(folder, address, load, seconds):
    document = {"url": address, "duration_s": seconds, "warmup_s": 2, "drain_s": 5,
                "services": [{"name": MODEL["name"], "rate_rps": load * CAPACITY, "slo_ms": SLO_MS}]}
    file = folder / "load.json"
    file.write_text(json.dumps(document))
    done = subprocess.run([BINARY, "load", file, "--json"], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def measure(arguments):
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        models = folder / "models"
        emulated_model(models, *MODEL.values())
        make = {"triton": triton, "fermata": fermata}[arguments.servers]
        servers = [stack.enter_context(make(models)) for _ in range(SERVERS)]
        addresses = [f"127.0.0.1:{each.grpc}" for each in servers]
        picker = stack.enter_context(envoy.Picker(arguments.picker or BINARY, addresses, "--slo-ms", str(SLO_MS)))
        front = stack.enter_context(envoy.Envoy(folder, addresses, picker.address, "http2_protocol_options"))
        runs = {str(load): {"picker": [], "round robin": []} for load in arguments.loads}
        for _ in range(arguments.rounds):
            for load in arguments.loads:
                for name, address in (("picker", front.picked), ("round robin", front.turns)):
                    runs[str(load)][name].append(run(folder, address, load, arguments.seconds))
                    print(load, name, runs[str(load)][name][-1]["on_time_rps"], file=sys.stderr)
        return runs


def on_time(runs):
    return statistics.median(each["on_time_rps"] for each in runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--servers", choices=("triton", "fermata"), default="triton")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--loads", type=float, nargs="+", default=LOADS)
    parser.add_argument("--picker", help="another program that has the command `picker`")
    arguments = parser.parse_args()
    runs = measure(arguments)
    rows, missed = [], []
    for load, both in runs.items():
        ours, theirs = on_time(both["picker"]), on_time(both["round robin"])
        ratio = ours / max(theirs, 1e-9)
        rows.append([f"{load}x", statistics.median(r["offered_rps"] for r in both["picker"]), ours, theirs, ratio])
        if ratio < NEEDED.get(float(load), 1.0):
            missed.append(f"at {load} of the capacity the picker has {ratio:.3f} times round robin's, of {NEEDED.get(float(load), 1.0)}")
    print(plot.table(["load", "offered/s", "picker on time/s", "round robin's", "ratio"], rows))
    document = {"servers": arguments.servers, "count": SERVERS, "capacity_rps": CAPACITY, "slo_ms": SLO_MS, "runs": runs}
    about = {"triton": triton_server.version()} if arguments.servers == "triton" else {}
    plot.save("picker", drawings.DRAWN["picker"](document), document, **about)
    if missed:
        sys.exit("\n".join(missed))


if __name__ == "__main__":
    main()
