#!/usr/bin/env python3
"""One stranger costs others nothing: what it does, and what a canary beside it gets.

    make attack                                    # or, with build/fermata there:
    .deps/test/bin/python bench/attack.py [--only grpc_heads,slow_bodies] [--seconds 15] [--recover 60]

For each attack of bench/attacks.py a server of its own, and beside it a canary: 20 requests a second over each of HTTP,
new HTTP connections, gRPC and new gRPC connections, and where the attack is on a service of its own (pictures, a slow
model's queue) requests to that too, first at rest, then beside the attack, then a minute later. Prints a table, and
writes bench/results/attack.json and .png (the plot where matplotlib is there). Exit code 1: others lost more than
2 % beyond what they lose at rest, their 99th percentile was more than 5 times that at rest (and 20 ms), the memory
grew by more than 1.2 times listen.memory_mb, or a minute later was not within 10 % of that of before."""

import argparse
import concurrent.futures
import http.client
import json
import multiprocessing
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import record

import attacks
import server

ROOT = server.ROOT
MEMORY_MB, REQUEST_MB = 256, 16
RATE, PATIENCE_S = 20, 2.0
MOST_LOST, MOST_SLOWER, LEAST_MS, MOST_MEMORY, BACK = 0.02, 5.0, 20.0, 1.2, 0.10
INPUT = bytes(4 * 64)


class Served(server.Started):
    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self._folder.name)
        models = folder / "models"
        models.mkdir()
        (models / "identity-uint8").symlink_to(ROOT / "tests" / "data" / "repository" / "identity-uint8")
        (models / "shapes-96").symlink_to(ROOT / "zoo" / "repository" / "shapes-96")
        for name, ms in (("quick", 1.0), ("slow", 20.0)):
            shutil.copytree(ROOT / "tests" / "data" / "repository" / "identity-fp32", models / name)
            server.write_profile(models / name, {1: ms, 4: 2 * ms})
        self.http, self.grpc, metrics = server.free_ports(3)
        config = folder / "fermata.yaml"
        config.write_text(json.dumps({
            "models": str(models), "log_level": "warning",
            "listen": {"http": self.http, "grpc": self.grpc, "metrics": metrics, "memory_mb": MEMORY_MB,
                       "max_request_mb": REQUEST_MB},
            "workers": {"count": 2, "executor": "paced"},
            "services": {"quick": {"slo_ms": 1000}, "slow": {"slo_ms": 1000},
                         "pictures": {"kind": "pipeline", "slo_ms": 200, "stages": [
                             {"name": "decode", "operator": "decode-image"},
                             {"name": "fit", "operator": "resize", "size": [96, 96]},
                             {"name": "pixels", "operator": "normalise", "inputs": {"image": "fit.image"}},
                             {"name": "detect", "model": "shapes-96", "inputs": {"image": "pixels.tensor"}}]}}}))
        self._start([server.BINARY, "serve", "--config", config], folder / "log")

    def memory_mb(self):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


def infer_over_http(connection, model):
    head = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 64],
                                   "parameters": {"binary_data_size": len(INPUT)}}]}).encode()
    connection.request("POST", f"/v2/models/{model}/infer", head + INPUT,
                       {"Inference-Header-Content-Length": str(len(head))})
    reply = connection.getresponse()
    reply.read()
    return reply.status == 200


def ways(http_port, grpc_port, extra):
    """Each makes one request of its own kind; true: it was answered."""
    import grpc
    from tritonclient.grpc import service_pb2
    request = service_pb2.ModelInferRequest(model_name="quick")
    request.inputs.add(name="x", datatype="FP32", shape=[1, 64])
    request.raw_input_contents.append(INPUT)
    wire, path = request.SerializeToString(), "/inference.GRPCInferenceService/ModelInfer"
    own = threading.local()
    channel = grpc.insecure_channel(f"127.0.0.1:{grpc_port}")

    def kept_http(model="quick"):
        if getattr(own, "http", None) is None:
            own.http = http.client.HTTPConnection("127.0.0.1", http_port, timeout=PATIENCE_S)
        try:
            return infer_over_http(own.http, model)
        except Exception:
            own.http.close()
            own.http = None
            raise

    def new_http(model="quick"):
        connection = http.client.HTTPConnection("127.0.0.1", http_port, timeout=PATIENCE_S)
        try:
            return infer_over_http(connection, model)
        finally:
            connection.close()

    def kept_grpc():
        return channel.unary_unary(path)(wire, timeout=PATIENCE_S) is not None

    def new_grpc():
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"127.0.0.1:{grpc_port}", options) as fresh:
            return fresh.unary_unary(path)(wire, timeout=PATIENCE_S) is not None

    def picture():
        head, data = attacks.picture_request(attacks.png(320, 240))
        connection = http.client.HTTPConnection("127.0.0.1", http_port, timeout=PATIENCE_S)
        try:
            connection.request("POST", "/v2/models/pictures/infer", head + data,
                               {"Inference-Header-Content-Length": str(len(head))})
            return connection.getresponse().status == 200
        finally:
            connection.close()

    found = {"HTTP": kept_http, "new HTTP": new_http, "gRPC": kept_grpc, "new gRPC": new_grpc}
    if extra == "pictures":
        found["pictures"] = picture
    if extra == "slow":
        found["slow"] = lambda: new_http("slow")
    return found


def canary(http_port, grpc_port, extra, seconds, out):
    """RATE requests a second each way, whatever became of those before; sends the milliseconds, null: lost."""
    def one(way):
        start = time.monotonic()
        try:
            good = way()
        except Exception:
            good = False
        took = time.monotonic() - start
        return took * 1000 if good and took <= PATIENCE_S else None
    with concurrent.futures.ThreadPoolExecutor(160) as pool:
        asked, start = {name: [] for name in ways(http_port, grpc_port, extra)}, time.monotonic()
        by_name = ways(http_port, grpc_port, extra)
        for tick in range(int(seconds * RATE)):
            time.sleep(max(0.0, start + tick / RATE - time.monotonic()))
            for name, way in by_name.items():
                asked[name].append(pool.submit(one, way))
        out.put({name: [f.result() for f in futures] for name, futures in asked.items()})


def watch(served, extra, seconds):
    """What the canary got, and the most memory meanwhile."""
    out = multiprocessing.Queue()
    process = multiprocessing.Process(target=canary, args=(served.http, served.grpc, extra, seconds, out))
    process.start()
    most, got = 0.0, None
    while got is None:
        most = max(most, served.memory_mb())
        try:
            got = out.get(timeout=0.2)
        except Exception:
            if not process.is_alive() and out.empty():
                sys.exit("the canary ended without a word")
    process.join()
    return got, most


def figures(got):
    rows = {}
    for name, all_ms in got.items():
        answered = sorted(ms for ms in all_ms if ms is not None)
        rows[name] = {"sent": len(all_ms), "lost": len(all_ms) - len(answered),
                      "p50_ms": answered[len(answered) // 2] if answered else None,
                      "p99_ms": answered[int(len(answered) * 0.99)] if answered else None}
    return rows


def verdict(row):
    """Why others were harmed; none: they were not."""
    reasons = []
    for name, during in row["during"].items():
        rest = row["rest"][name]
        lost = during["lost"] / during["sent"] - rest["lost"] / rest["sent"]
        if lost > MOST_LOST:
            reasons.append(f"{name} lost {lost:.0%}")
        elif during["p99_ms"] > max(MOST_SLOWER * rest["p99_ms"], LEAST_MS):
            reasons.append(f"{name} p99 {rest['p99_ms']:.0f} -> {during['p99_ms']:.0f} ms")
    if row["peak_mb"] - row["rest_mb"] > MOST_MEMORY * MEMORY_MB:
        reasons.append(f"memory {row['rest_mb']:.0f} -> {row['peak_mb']:.0f} MB")
    if row["after_mb"] > row["rest_mb"] * (1 + BACK):
        reasons.append(f"memory stays at {row['after_mb']:.0f} MB")
    return reasons


def run(attack, seconds, recover):
    extra = {"large_pictures": "pictures", "bad_pictures": "pictures", "full_queue": "slow"}.get(attack)
    with Served() as served:
        watch(served, extra, 3)  # what is made once
        rest, _ = watch(served, extra, seconds / 2)
        rest_mb = served.memory_mb()
        stranger = subprocess.Popen([sys.executable, ROOT / "bench" / "attacks.py", attack, str(served.http),
                                     str(served.grpc), str(seconds + 4)], stderr=subprocess.DEVNULL)
        time.sleep(2)
        during, peak_mb = watch(served, extra, seconds)
        stranger.kill()
        stranger.wait()
        time.sleep(recover)
        after, _ = watch(served, extra, 3)
        row = {"attack": attack, "rest": figures(rest), "during": figures(during), "after": figures(after),
               "rest_mb": rest_mb, "peak_mb": peak_mb, "after_mb": served.memory_mb()}
    return row | {"harm": verdict(row)}


def show(row):
    for name, during in row["during"].items():
        rest = row["rest"][name]
        p99 = "-" if during["p99_ms"] is None else f"{during['p99_ms']:.1f}"
        print(f"{row['attack']:18} {name:9} lost {during['lost']:4}/{during['sent']:<4} at rest {rest['lost']:3}/{rest['sent']:<4}"
              f" p99 {rest['p99_ms'] or 0:6.1f} -> {p99:>7} ms")
    print(f"{row['attack']:18} memory {row['rest_mb']:.0f} -> {row['peak_mb']:.0f} -> {row['after_mb']:.0f} MB: "
          f"{'; '.join(row['harm']) or 'no harm'}", flush=True)


def draw(document):
    import plot
    figure, (lost, slower, memory) = plot.axes("", "", columns=3, width=4.2, height=0.42 * len(document["rows"]) + 1)
    names = [row["attack"].replace("_", " ") for row in document["rows"]]
    at = range(len(names))
    def worst(row, of):
        return max(of(row["during"][way], row["rest"][way]) for way in row["during"])
    lost.barh(at, [100 * worst(r, lambda d, q: d["lost"] / d["sent"] - q["lost"] / q["sent"]) for r in document["rows"]])
    slower.barh(at, [worst(r, lambda d, q: (d["p99_ms"] or 2000) / (q["p99_ms"] or 2000)) for r in document["rows"]])
    memory.barh(at, [(r["peak_mb"] - r["rest_mb"]) / MEMORY_MB for r in document["rows"]])
    bounds = ((lost, 100 * MOST_LOST, "% of requests lost"), (slower, MOST_SLOWER, "99th percentile, times that at rest"),
              (memory, MOST_MEMORY, "memory, of listen.memory_mb"))
    for axis, bound, label in bounds:
        axis.axvline(bound, color=plot.NEUTRAL, linestyle="--")
        axis.set_xlabel(label)
        axis.set_yticks(list(at), names if axis is lost else [""] * len(names))
        axis.invert_yaxis()
    plot.save("attack", figure, document)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--recover", type=float, default=60)
    parser.add_argument("--record", action="store_true", help="write bench/results/attack.json and .png")
    options = parser.parse_args()
    chosen = [a.__name__ for a in attacks.ATTACKS if not options.only or a.__name__ in options.only.replace(",", " ").split()]
    rows = []
    for name in chosen:
        rows.append(run(name, options.seconds, options.recover))
        show(rows[-1])
    document = {"memory_mb": MEMORY_MB, "seconds": options.seconds, "rows": rows}
    if options.record:
        try:
            draw(document)
        except ImportError:
            record.write("attack", document)
    sys.exit(any(row["harm"] for row in rows))


if __name__ == "__main__":
    main()
