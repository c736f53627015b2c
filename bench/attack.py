#!/usr/bin/env python3
"""One stranger costs others nothing: what it does, and what a canary beside it gets.

    make attack                                    # or, with build/fermata there:
    .deps/test/bin/python bench/attack.py [--only grpc_heads,slow_bodies] [--seconds 15] [--recover 60]
    .deps/bench/bin/python bench/attack.py --draw  # the plot again, from the record

For each attack of bench/attacks.py and of attacks_more.py, attacks_parts.py, attacks_rest.py and attacks_further.py a server
of its own, and beside it a canary: 20 requests a second over each of HTTP, new HTTP connections, gRPC and new gRPC connections, and where the attack is on a service of its own
(pictures, sounds, a slow model's queue, long JSON, streams, watches) requests to that too, first at rest, then beside the attack; a minute later, what memory
is left. Prints a table, and with --record writes bench/results/attack.json and .png (the plot where matplotlib is
there); rows of attacks that are not run now stay, each with what drew it. Exit code 1: others lost more than 2 % beyond
what they lose at rest, their 99th percentile was more than 5 times that at rest (and 20 ms), the memory grew by more than
1.2 times listen.memory_mb, or a minute later was not within 10 % of that of before.

Unless its attack says otherwise, the stranger has the canary's address; it runs ten below it in priority (nice): it would be on another machine, and what it takes of this
one's cores to make its bytes is no fault of the server's."""

import argparse
import collections
import concurrent.futures
import http.client
import json
import multiprocessing
import os
import pathlib
import re
import shutil
import sys
import tempfile
import threading
import time

import record

import attacks
import attacks_further
import attacks_more
import attacks_parts
import attacks_rest
import server

from hosted import make_certificate

ROOT = server.ROOT
MEMORY_MB, REQUEST_MB = 256, 16
RATE, PATIENCE_S = 20, 2.0
MOST_LOST, MOST_SLOWER, LEAST_MS, MOST_MEMORY, BACK = 0.02, 5.0, 20.0, 1.2, 0.10
INPUT = bytes(4 * 64)
ATTACKS = attacks.ATTACKS + attacks_more.ATTACKS + attacks_parts.ATTACKS + attacks_rest.ATTACKS + attacks_further.ATTACKS
EXTRA = {"large_pictures": "pictures", "bad_pictures": "pictures", "progressive_pictures": "pictures",
         "escaped_texts": "pictures", "empty_texts": "pictures", "full_queue": "slow", "waiting_streams": "slow",
         "waiting_requests": "slow", "waiting_web_requests": "slow", "stuffed_calls": "slow", "patient_resets": "slow",
         "stream_resets": "slow", "web_aborts": "slow",
         "large_sounds": "sounds", "odd_sounds": "sounds"} | attacks_further.EXTRA


class Served(server.Started):
    def __init__(self, attack):
        self._folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self._folder.name)
        models = folder / "models"
        models.mkdir()
        (models / "identity-uint8").symlink_to(ROOT / "tests" / "data" / "repository" / "identity-uint8")
        (models / "shapes-96").symlink_to(ROOT / "zoo" / "repository" / "shapes-96")
        for name, ms in (("quick", 1.0), ("slow", 8.0)):  # both workers may run slow ones when a quick one comes
            shutil.copytree(ROOT / "tests" / "data" / "repository" / "identity-fp32", models / name)
            server.write_profile(models / name, {1: ms, 4: 2 * ms})
        self.http, self.grpc, metrics, self.parts = server.free_ports(4)
        workers, more = {"count": 2}, {}
        if attack in attacks_parts.ON_PARTS:
            for name in ("authority", "part"):
                make_certificate(folder, name, "authority")
            workers = {"types": [{"name": "here", "count": 2}, {"name": "far", "count": 1, "remote": True}]}
            more = {"cluster": {"listen": f"127.0.0.1:{self.parts}", "tls": {
                "certificate": "part.pem", "key": "part.key", "authority": "authority.pem"}}}
        config = folder / "fermata.yaml"
        config.write_text(json.dumps({
            "models": str(models), "log_level": "warning",
            "listen": {"http": self.http, "grpc": self.grpc, "metrics": metrics, "memory_mb": MEMORY_MB,
                       "max_request_mb": REQUEST_MB, "admin": attack != attacks_rest.refused_loads},
            "workers": workers | {"executor": "paced"},
            "recorder": {"seconds": 30},  # what is recorded is gone when memory is looked at, a minute later
            "services": {"quick": {"slo_ms": 1000}, "slow": {"slo_ms": 1000},
                         "pictures": {"kind": "pipeline", "slo_ms": 200, "stages": [
                             {"name": "decode", "operator": "decode-image"},
                             {"name": "fit", "operator": "resize", "size": [96, 96]},
                             {"name": "pixels", "operator": "normalise", "inputs": {"image": "fit.image"}},
                             {"name": "detect", "model": "shapes-96", "inputs": {"image": "pixels.tensor"}}]},
                         "sounds": {"kind": "pipeline", "slo_ms": 200, "stages": [
                             {"name": "decode", "operator": "decode-sound"},
                             {"name": "cut", "operator": "windows", "size": 64},
                             {"name": "hear", "model": "quick", "inputs": {"x": "cut.samples"}}]}}} | more))
        self._start([server.BINARY, "serve", "--config", config], folder / "log")

    def memory_mb(self):
        if (code := self._process.poll()) is not None:
            sys.exit(f"the server has ended with {code}:\n{(pathlib.Path(self._folder.name) / 'log').read_text()}")
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

    def of_pipeline(head, data):
        connection = http.client.HTTPConnection("127.0.0.1", http_port, timeout=PATIENCE_S)
        try:
            connection.request("POST", f"/v2/models/{extra}/infer", head + data, {"Inference-Header-Content-Length": str(len(head))})
            return connection.getresponse().status == 200
        finally:
            connection.close()

    def json_text():  # long enough for a background thread
        text = b'{"inputs":[{"name":"x","datatype":"UINT8","shape":[1,35000],"data":[' + b"0," * 34_999 + b"0]}]}"
        connection = http.client.HTTPConnection("127.0.0.1", http_port, timeout=PATIENCE_S)
        try:
            connection.request("POST", "/v2/models/identity-uint8/infer", text)
            reply = connection.getresponse()
            return reply.status == 200 and bool(reply.read())
        finally:
            connection.close()

    def new_stream():
        call = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")(iter([wire]), timeout=PATIENCE_S)
        return not service_pb2.ModelStreamInferResponse.FromString(next(call)).error_message

    def new_watch():
        call = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=PATIENCE_S)
        try:
            return next(call) is not None
        finally:
            call.cancel()

    found = {"HTTP": kept_http, "new HTTP": new_http, "gRPC": kept_grpc, "new gRPC": new_grpc}
    if extra == "pictures":
        found["pictures"] = lambda: of_pipeline(*attacks.picture_request(attacks.png(320, 240)))
    if extra == "sounds":
        found["sounds"] = lambda: of_pipeline(*attacks_rest.sound_request(attacks_rest.wav(bytes(640), 16_000)))
    if extra == "slow":
        found["slow"] = lambda: new_http("slow")
    if extra == "JSON":
        found["JSON"] = json_text
    if extra == "streams":
        found["streams"] = new_stream
    if extra == "watchers":
        found["watchers"] = new_watch
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
    by_name = ways(http_port, grpc_port, extra)
    with concurrent.futures.ThreadPoolExecutor(160) as pool:
        # A first call makes what a gRPC client needs, which takes 30 to 90 ms where the cores have other work, too.
        concurrent.futures.wait([pool.submit(one, way) for way in by_name.values()])
        asked, start = {name: [] for name in by_name}, time.monotonic()
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


def be_stranger(attack, served, seconds):
    os.nice(10)
    threading.excepthook = lambda failed: (print(f"{attack.__name__} does not do what it should: {failed.exc_value!r}", flush=True), os._exit(3))
    attack(attacks.Stranger(*served, seconds))


def run(attack, seconds, served):
    """The row so far: what memory is left is seen later."""
    extra = EXTRA.get(attack.__name__)
    watch(served, extra, 3)  # what is made once
    rest, _ = watch(served, extra, seconds / 2)
    rest_mb = served.memory_mb()
    stranger = multiprocessing.Process(target=be_stranger, args=(attack, (served.http, served.grpc, served.parts), seconds + 4),
                                        daemon=True)
    stranger.start()
    start, peak_mb = time.monotonic(), 0.0
    while time.monotonic() < start + 2:  # what comes at once may be most
        peak_mb = max(peak_mb, served.memory_mb())
        time.sleep(0.05)
    during, later_mb = watch(served, extra, seconds)
    peak_mb = max(peak_mb, later_mb)
    if stranger.exitcode:
        sys.exit(stranger.exitcode)
    stranger.kill()
    stranger.join()
    return {"attack": attack.__name__, "rest": figures(rest), "during": figures(during), "rest_mb": rest_mb, "peak_mb": peak_mb}


def run_all(chosen, seconds, recover):
    """While the server of one attack stands idle for its minute, the next attacks run, each on a server of its own."""
    waiting = collections.deque()

    def next_row():
        row, served, ended = waiting.popleft()
        time.sleep(max(0.0, ended + recover - time.monotonic()))
        row["after_mb"] = served.memory_mb()
        served.__exit__(None, None, None)
        return row | {"harm": verdict(row)}

    try:
        for attack in chosen:
            served = Served(attack)
            waiting.append((run(attack, seconds, served), served, time.monotonic()))
            while waiting and time.monotonic() >= waiting[0][2] + recover:
                yield next_row()
        while waiting:
            yield next_row()
    finally:
        for _, served, _ in waiting:
            served.__exit__(None, None, None)


def show(row):
    for name, during in row["during"].items():
        rest = row["rest"][name]
        p99 = "-" if during["p99_ms"] is None else f"{during['p99_ms']:.1f}"
        print(f"{row['attack']:18} {name:9} lost {during['lost']:4}/{during['sent']:<4} at rest {rest['lost']:3}/{rest['sent']:<4}"
              f" p99 {rest['p99_ms'] or 0:6.1f} -> {p99:>7} ms")
    print(f"{row['attack']:18} memory {row['rest_mb']:.0f} -> {row['peak_mb']:.0f} -> {row['after_mb']:.0f} MB: "
          f"{'; '.join(row['harm']) or 'no harm'}", flush=True)


def draw(document):
    """bench/results/attack.png."""
    import plot
    rows = document["rows"]
    figure, axes = plot.axes("", "", columns=3, width=3.6, height=0.16 * len(rows) + 1)

    def worst(row, of):
        return max(of(row["during"][way], row["rest"][way]) for way in row["during"])
    bars = ((100 * MOST_LOST, "% of requests lost beyond rest",
             lambda r: 100 * worst(r, lambda d, q: d["lost"] / d["sent"] - q["lost"] / q["sent"])),
            (MOST_SLOWER, "99th percentile, times that at rest",
             lambda r: worst(r, lambda d, q: (d["p99_ms"] or 1000 * PATIENCE_S) / max(q["p99_ms"], LEAST_MS / MOST_SLOWER))),
            (MOST_MEMORY, "memory, times listen.memory_mb", lambda r: (r["peak_mb"] - r["rest_mb"]) / document["memory_mb"]))
    for axis, (bound, label, of) in zip(axes, bars):
        lengths = [of(row) for row in rows]
        axis.barh(range(len(rows)), lengths, color=[plot.COLOURS[0] if length <= bound else plot.COLOURS[1] for length in lengths])
        axis.axvline(bound, color=plot.NEUTRAL, linestyle="--")
        axis.set_xlabel(label)
        axis.set_yticks(range(len(rows)), [row["attack"].replace("_", " ") for row in rows] if axis is axes[0] else [""] * len(rows),
                        fontsize=7)
        axis.margins(y=0.01)
        axis.invert_yaxis()
    harmed = sum(bool(row["harm"]) for row in rows)
    plot.says(figure, f"What a canary loses beside each of {len(rows)} attacks; dashed: what it may. {len(rows) - harmed} harm nobody.")
    figure.savefig(record.RESULTS / "attack.png")


def save(rows, options):
    """Rows of attacks that did not run now stay, with what drew them."""
    ran, earlier = {row["attack"] for row in rows}, record.read("attack")
    now = {key: value for key, value in record.drawn().items() if key in ("commit", "changed_since", "date", "load_before")}
    now |= {"seconds": options.seconds, "recover": options.recover}
    kept = [row for row in earlier.get("rows", []) if row["attack"] not in ran]
    order = [a.__name__ for a in ATTACKS]
    rows = sorted((row for row in kept + [row | now for row in rows] if row["attack"] in order), key=lambda r: order.index(r["attack"]))
    document = {"memory_mb": MEMORY_MB, "rows": rows}
    record.write("attack", document, before=record.left(earlier) if kept else None)
    try:
        draw(document)
    except ImportError:
        print("no plot: matplotlib is not there; bench/attack.py --draw draws it from the record")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--recover", type=float, default=60)
    parser.add_argument("--record", action="store_true", help="write bench/results/attack.json and .png")
    parser.add_argument("--draw", action="store_true", help="only the plot, from the record")
    options = parser.parse_args()
    if options.draw:
        return draw(record.read("attack"))
    wanted = options.only.replace(",", " ").split()
    chosen = [a for a in ATTACKS if not wanted or a.__name__ in wanted]
    rows = []
    for row in run_all(chosen, options.seconds, options.recover):
        rows.append(row)
        show(row)
    if options.record:
        save(rows, options)
    sys.exit(any(row["harm"] for row in rows))


if __name__ == "__main__":
    main()
