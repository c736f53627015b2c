#!/usr/bin/env python3
"""Does a simulated run predict the served one?

    make build && python3 bench/served_as_simulated.py [--seconds 30]

Five scenarios run twice with the same policy code: in `fermata simulate`, and for
real, with emulated workers behind the real server and `fermata load` in front of
it. The profiles are those of Symphony's tables, slowed tenfold, so that the
machine's own stalls of some milliseconds do not decide. Says on time answers a second and
p99 latency as served over simulated; both are to be within 5 % of 1.
Writes bench/results/served-as-simulated.json and .png."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import drawings
import plot
import server

SLOWED = 10
WARMUP_S = 3
MAX_BATCH = 64
DELAY_MS = 0.5  # what a server allows decisions before it has measured any; not what the served run measured
WAY_MS = 10  # of the SLO, kept for the way to the client and back; both schedulers are told the rest
# alpha, beta and SLO in milliseconds: tables 4 and 5 of the paper.
MODELS = {
    "resnet50": (1.053, 5.072, 25),
    "inceptionresnetv2": (5.090, 18.368, 70),
    "densenet121": (1.061, 10.312, 30),
    "inceptionv3": (1.964, 8.771, 33),
    "vgg16": (2.734, 5.786, 33),
    "mobilenet": (1.009, 2.390, 20),
}
POISSON = {"process": "poisson"}
SCENARIOS = {
    "ResNet50, 8 workers": (["resnet50"], 8, 450, POISSON),
    "InceptionResNetV2, 8 workers": (["inceptionresnetv2"], 8, 78, POISSON),
    "4 models, 12 workers": (["densenet121", "inceptionv3", "vgg16", "mobilenet"], 12, 300,
                             POISSON),
    "ResNet50, 8 workers, bursts": (["resnet50"], 8, 400, {"process": "gamma", "shape": 0.3}),
    "ResNet50, 8 workers, overload": (["resnet50"], 8, 800, POISSON),
}


def simulated(names, workers, rate, arrival, seconds):
    document = {
        "seed": 1, "warmup_s": WARMUP_S, "duration_s": seconds, "scheduler": "fermata",
        "workers": {"count": workers}, "rate_rps": rate,
        "network": {"control_ms": DELAY_MS, "per_item_ms": 0.0},
        "models": [{"name": name, "latency_ms": {"alpha": SLOWED * MODELS[name][0],
                                                 "beta": SLOWED * MODELS[name][1]},
                    "slo_ms": SLOWED * MODELS[name][2] - WAY_MS, "share": 1.0, "max_batch": MAX_BATCH,
                    "arrival": arrival} for name in names]}
    done = subprocess.run([server.BINARY, "simulate", "-"], input=json.dumps(document), text=True,
                          capture_output=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    result = json.loads(done.stdout)
    return result["on_time_rps"], max(m["p99_ms"] for m in result["models"])


def served(names, workers, rate, arrival, seconds):
    """On time answers a second, p99 in ms, and the control delay that decisions allowed for."""
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            server.emulated_model(pathlib.Path(folder), name, SLOWED * MODELS[name][0],
                                  SLOWED * MODELS[name][1], MAX_BATCH)
        config = {"models": folder, "log_level": "warning", "scheduler": "fermata",
                  "workers": {"count": workers, "executor": "emulated"},
                  "services": {name: {"slo_ms": SLOWED * MODELS[name][2] - WAY_MS, "queue_limit": 100000}
                               for name in names}}
        with server.Server(config) as running:
            arrivals = arrival["process"] + (f":{arrival['shape']}" if "shape" in arrival else "")
            command = [server.BINARY, "load", "--url", f"127.0.0.1:{running.grpc}",
                       "--arrivals", arrivals, "--warmup", str(WARMUP_S), "--duration",
                       str(seconds), "--seed", "1", "--explain", "--json"]
            for name in names:
                command += ["--service",
                            f"{name}:{rate / len(names)}::{SLOWED * MODELS[name][2]}"]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(done.stderr)
            result = json.loads(done.stdout)
            delay_ms = 1e3 * running.metrics()["fermata_control_delay_seconds"]
            p99 = max(s["p99_ms"] for s in result["services"])
            return result["on_time_rps"], p99, delay_ms


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    arguments = parser.parse_args()
    document, rows = {"seconds": arguments.seconds, "scenarios": {}}, []
    for title, scenario in SCENARIOS.items():
        real_rps, real_p99, delay_ms = served(*scenario, arguments.seconds)
        said_rps, said_p99 = simulated(*scenario, arguments.seconds)
        document["scenarios"][title] = {
            "on_time_rps": {"served": real_rps, "simulated": said_rps},
            "p99_ms": {"served": real_p99, "simulated": said_p99}, "served_control_delay_ms": delay_ms}
        rows.append([title, said_rps, real_rps, real_rps / said_rps, said_p99, real_p99,
                     real_p99 / said_p99])
        print(f"  {title}: {real_rps / said_rps:.3f} {real_p99 / said_p99:.3f}", file=sys.stderr)
    print(plot.table(["scenario", "simulated/s", "served/s", "ratio", "simulated p99 ms",
                      "served p99 ms", "ratio"], rows))
    print(plot.save("served-as-simulated", drawings.DRAWN["served-as-simulated"](document), document))


if __name__ == "__main__":
    main()
