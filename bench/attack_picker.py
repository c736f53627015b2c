#!/usr/bin/env python3
"""What one stranger costs others at `fermata picker`, and what a canary beside it gets.

    make attack                                     # or, with build/fermata there:
    .deps/test/bin/python bench/attack_picker.py [--only tenants,heads] [--seconds 8] [--record]

The picker is asked as Envoy asks it (ext_proc over gRPC), for two servers that are not there: whoever plays the gateway
says when they have answered. A stranger's many threads say so late, as where clients send slowly. The canary, a tenant of
its own, asks for four requests 20 times a second, and is answered after 5 ms; first alone, then beside each attack. Prints a table; --record writes bench/results/attack_picker.json. Exit code 1: more than
2 % of the canary's requests got no server, or the 99th percentile was above 5 times that alone (and 20 ms), or the memory
grew by more than MOST_MB."""

import argparse
import concurrent.futures
import itertools
import multiprocessing
import os
import pathlib
import re
import sys
import threading
import time

import grpc

import record
import server

sys.path.insert(0, str(server.ROOT / "tests" / "python"))
from envoy import Picker  # noqa: E402

METHOD = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
RATE, AT_ONCE, ANSWER_S, SLO_MS, PATIENCE_S = 20, 4, 0.005, 100, 2.0
MOST_LOST, MOST_SLOWER, LEAST_MS, MOST_MB = 0.02, 5.0, 20.0, 256


def field(number, data):
    size, head = len(data), b""
    while size >= 128:
        head += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + head + bytes([size]) + data


def headers(of, **values):
    """A ProcessingRequest in protobuf: 2, heads of a request; 3, heads of its answer."""
    pairs = (field(1, field(1, key.replace("_", "-").encode()) + field(3, value)) for key, value in values.items())
    return field(of, field(1, b"".join(pairs)))


def asked(tenant, path=b"/v2/models/m/infer", **more):
    return headers(2, **{":path": path, "x-llm-d-inference-fairness-id": tenant}, **more)


ANSWERED, REFUSED = headers(3, **{":status": b"200"}), headers(3, **{":status": b"504"})


class Gateway:
    def __init__(self, address):
        self.channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        self.process = self.channel.stream_stream(METHOD)

    def ask(self, first, answer_s=ANSWER_S, answer=ANSWERED):
        """Milliseconds until a server was named; None: none was."""
        going, start = threading.Event(), time.monotonic()

        def sent():
            yield first
            going.wait(PATIENCE_S)
            yield answer
        call = self.process(sent(), timeout=PATIENCE_S)
        try:
            named = b"x-gateway-destination-endpoint" in next(call)
            took = (time.monotonic() - start) * 1000
            time.sleep(answer_s if named else 0)
            going.set()
            next(call)
            return took if named else None
        except (grpc.RpcError, StopIteration):
            return None
        finally:
            going.set()
            call.cancel()


def again(gateway, threads, until, one):
    def go(number):
        for turn in itertools.count():
            if time.monotonic() > until:
                return
            one(number, turn)
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        list(pool.map(go, range(threads)))


def tenants(gateway, until):
    """Requests of which each has a fairness id of its own."""
    again(gateway, 16, until, lambda number, turn: gateway.ask(asked(b"%d %d" % (number, turn))))


def paths(gateway, until):
    """Requests of which each has a path of its own."""
    again(gateway, 16, until, lambda number, turn: gateway.ask(asked(b"stranger", b"/%d/%d" % (number, turn))))


def heads(gateway, until):
    """Heads of 3 MB."""
    more = {f"x_{i}": bytes(60_000) for i in range(50)}
    again(gateway, 8, until, lambda number, turn: gateway.ask(asked(b"stranger", **more)))


def endless(gateway, until):
    """Requests that are asked for and never end."""
    kept = []

    def one(number, turn):
        first = iter([asked(b"stranger")])
        call = gateway.process(itertools.chain(first, iter(lambda: time.sleep(3600) or b"", 0)))
        kept.append(call)
        next(call)
        time.sleep(0.02)
    again(gateway, 4, until, one)


def slow_answers(gateway, until):
    """Requests whose answers take seconds."""
    again(gateway, 64, until, lambda number, turn: gateway.ask(asked(b"stranger"), 1.5))


def provoked_refusals(gateway, until):
    """Requests that tell the gateway that they have an hour, and their server that they have no time."""
    patient = asked(b"stranger", **{"x_envoy_upstream_rq_timeout_ms": b"3600000"})
    again(gateway, 16, until, lambda number, turn: gateway.ask(patient, 0.001, REFUSED))


def hasty(gateway, until):
    """Requests that have a nanosecond."""
    again(gateway, 16, until, lambda number, turn: gateway.ask(asked(b"stranger", grpc_timeout=b"1n"), 0.001, REFUSED))


def failures(gateway, until):
    """Requests that no server can answer."""
    broken = headers(3, **{":status": b"500"})
    again(gateway, 16, until, lambda number, turn: gateway.ask(asked(b"stranger"), 0.001, broken))


def bodies(gateway, until):
    """Bodies of 3 MB, of requests that go on."""
    body = field(4, field(1, bytes(3 << 20)))
    again(gateway, 8, until, lambda number, turn: list(gateway.process(iter([asked(b"stranger")] + [body] * 20))))


def torn(gateway, until):
    """Messages that are none."""
    def one(number, turn):
        try:
            list(gateway.process(iter([os.urandom(1000)] * 10)))
        except grpc.RpcError:
            pass
    again(gateway, 8, until, one)


ATTACKS = [tenants, paths, heads, endless, slow_answers, provoked_refusals, hasty, failures, bodies, torn]


def be_stranger(attack, address, seconds):
    os.nice(10)
    try:
        attack(Gateway(address), time.monotonic() + seconds)
    finally:
        os._exit(0)


def canary(address, seconds):
    gateway, start = Gateway(address), time.monotonic()
    gateway.ask(asked(b"canary"))
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        asks = []
        for tick in range(int(seconds * RATE)):
            time.sleep(max(0.0, start + tick / RATE - time.monotonic()))
            asks += [pool.submit(gateway.ask, asked(b"canary")) for _ in range(AT_ONCE)]
    took = [one.result() for one in asks]
    known = sorted(ms for ms in took if ms is not None)
    return {"sent": len(took), "lost": len(took) - len(known), "p99_ms": known[int(0.99 * (len(known) - 1))] if known else None}


def memory_mb(picker):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{picker.process.pid}/status").read_text())[1]) / 1024


def run(attack, seconds):
    with Picker(server.BINARY, ["127.0.0.1:1", "127.0.0.1:2"], "--slo-ms", str(SLO_MS)) as picker:
        alone, rest_mb = canary(picker.address, seconds / 2), memory_mb(picker)
        stranger = multiprocessing.get_context("spawn").Process(target=be_stranger, args=(attack, picker.address, seconds + 2), daemon=True)
        stranger.start()
        time.sleep(1)
        beside, peak_mb = canary(picker.address, seconds), memory_mb(picker)
        stranger.kill()
        stranger.join()
        return {"attack": attack.__name__, "alone": alone, "beside": beside, "rest_mb": rest_mb, "peak_mb": peak_mb}


def verdict(row):
    beside, alone = row["beside"], row["alone"]
    wrong = []
    if beside["lost"] > MOST_LOST * beside["sent"]:
        wrong.append(f"lost {beside['lost']} of {beside['sent']}")
    elif beside["p99_ms"] > max(MOST_SLOWER * alone["p99_ms"], LEAST_MS):
        wrong.append(f"p99 {alone['p99_ms']:.0f} -> {beside['p99_ms']:.0f} ms")
    if row["peak_mb"] - row["rest_mb"] > MOST_MB:
        wrong.append(f"memory {row['rest_mb']:.0f} -> {row['peak_mb']:.0f} MB")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--record", action="store_true", help="write bench/results/attack_picker.json")
    options = parser.parse_args()
    wanted, rows = options.only.replace(",", " ").split(), []
    for attack in ATTACKS:
        if wanted and attack.__name__ not in wanted:
            continue
        row = run(attack, options.seconds)
        rows.append(row | {"harm": verdict(row)})
        print(f"{row['attack']:14} canary lost {row['alone']['lost']}/{row['alone']['sent']} alone, {row['beside']['lost']}/"
              f"{row['beside']['sent']} beside; p99 {row['alone']['p99_ms'] or 0:.1f} -> {row['beside']['p99_ms'] or 0:.1f} ms; memory "
              f"{row['rest_mb']:.0f} -> {row['peak_mb']:.0f} MB: {'; '.join(verdict(row)) or 'no harm'}", flush=True)
    if options.record and not wanted:
        record.write("attack_picker", {"rows": rows})
    sys.exit(any(row["harm"] for row in rows))


if __name__ == "__main__":
    main()
