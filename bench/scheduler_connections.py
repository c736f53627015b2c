#!/usr/bin/env python3
"""What one scheduler carries over real connections (src/cluster): requests a second, and processors' time.

    make bench && python3 bench/scheduler_connections.py [--seconds 5] [--rates 20000 50000 ...] [--workers 32]

Two frontends ask and workers answer at once, in one process over loopback and without TLS; the scheduler is another. A
rate is carried where 98 of 100 are answered within 200 ms. `processors`: that the scheduler used meanwhile, all of its
threads together. Writes bench/results/scheduler_connections.json."""

import argparse
import json
import pathlib
import subprocess
import tempfile

import record
import server

MODEL = "m"
CONFIG = """max_batch_size: 64
input { name: "x" data_type: TYPE_FP32 dims: 2 }
output { name: "y" data_type: TYPE_FP32 dims: 3 }
"""


def profile():
    batch = {"runs": 9, "p50_ms": 1, "p90_ms": 1, "p99_ms": 1, "mean_ms": 1}
    return {"format": 1, "version": 1, "model": MODEL, "model_version": "1", "provider": "cpu", "threads": 1,
            "linear_ms": {"alpha": 0, "beta": 1, "error": 0}, "quadratic_ms": {"a": 0, "b": 0, "c": 1, "error": 0},
            "batches": {"1": batch, "64": batch}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rates", type=float, nargs="*", default=[10e3, 20e3, 40e3, 80e3, 120e3, 160e3, 240e3, 320e3])
    parser.add_argument("--workers", type=int, default=32)
    parser.add_argument("--binary", type=pathlib.Path, default=server.ROOT / "build" / "bench_scheduler_connections")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        model = pathlib.Path(name) / MODEL
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(CONFIG)
        (model / "profile.json").write_text(json.dumps(profile()))
        for rate in arguments.rates:
            done = subprocess.run([arguments.binary, name, MODEL, str(rate), str(arguments.seconds), str(arguments.workers)],
                                  stdout=subprocess.PIPE, text=True, check=True)
            rows.append({"rate": rate, **json.loads(done.stdout)})
            print(rows[-1], flush=True)
    carried = [row["rate"] for row in rows if row["answered_per_second"] >= 0.98 * row["rate"]]
    record.write("scheduler_connections", {"carried": max(carried, default=0), "workers": arguments.workers, "rows": rows})


if __name__ == "__main__":
    main()
