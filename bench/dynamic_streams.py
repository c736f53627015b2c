#!/usr/bin/env python3
"""Streams to a dynamic DNN with early exits and without (Jellyfish's figure 21), served. Needs root, ip and tc.

    bench/dynamic_streams.py [--traces FOLDER] [--seconds 8]

The zoo's scans-slim-*, once as they exit early and once without exits, as the DNNs of two stream services of one
server, profiled here; clients in network namespaces send scanned digits, each a picture of the size that
it is told, over links that follow the WiFi trace. Digits have a tenth of the bytes of the paper's frames and links a tenth of
the trace's bandwidth. The services take turns setting by setting. Latency is of answers, from the client's
sending to its receiving. Record: bench/results/dynamic_streams.json.
"""

import argparse
import itertools
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import record
import streams_traces
from dynamic import SIDES, pictures, repository
from server import Server
from streams_links import Links, in_own_network

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import fermata  # noqa: E402

KINDS = ("exits", "whole")
SLOS, RATES, CLIENTS = (30, 50), (25,), (1, 2, 4)
SCALE = 0.1  # of the trace's bandwidth
WARM_UP_S = 2


# -- one client, in its namespace ------------------------------------------------------------------

def client(address, service, slo_ms, rate, seconds, seed):
    images, labels = pictures(400)
    draw = random.Random(seed)
    session = fermata.Session(service, slo=slo_ms / 1e3, rate=rate, input="image", outputs=("label",),
                              encode=lambda at, side: images[side][at:at + 1])
    measured, answers = [], {}
    with fermata.Stream(address, session) as stream:
        if not stream.wait_until_ready(30):
            sys.exit("dynamic_streams: the service has not answered within 30 s")
        begin = time.monotonic()
        while (now := time.monotonic()) < begin + WARM_UP_S + seconds:
            stream.pace()
            number, at = len(measured), draw.randrange(len(labels))
            measured.append((now >= begin + WARM_UP_S, at))
            stream.send(at, tag=number)
            while answer := stream.receive(timeout=0):
                answers[answer.frame] = answer
        while answer := stream.receive(timeout=1):
            answers[answer.frame] = answer
    got = [(answers.get(i), at) for i, (counts, at) in enumerate(measured) if counts]
    there = [(a, at) for a, at in got if a and a.ok]
    print(json.dumps({"offered": len(got), "latency_ms": [round(a.latency_s * 1e3, 3) for a, _ in there],
                      "on_time": sum(a.latency_s <= session.slo for a, _ in there),
                      "right": int(sum(a.outputs["label"].flat[0] == labels[at] for a, at in there)),
                      "sides": [a.input_size for a, _ in there]}))


# -- all of them -----------------------------------------------------------------------------------

def config_of(models, accuracy):
    services = {kind: {"kind": "stream", "variants": [
        {"service": f"{kind}-{side}", "input_size": side, "accuracy": accuracy[kind, side]} for side in SIDES]} for kind in KINDS}
    return {"models": str(models), "workers": {"count": 1, "threads": 1}, "services": services}


def measured_accuracy(models):
    """By kind and side, over the zoo's test pictures in batches of one, as the plans need it."""
    from dynamic import Asker
    images, labels = pictures(400)
    right = {}
    with Server({"models": str(models), "workers": {"count": 1}}) as server:
        asker = Asker(server)
        for kind, side in itertools.product(KINDS, SIDES):
            said = [asker.ask(f"{kind}-{side}", images[side][i:i + 1])[1][0] for i in range(len(labels))]
            right[kind, side] = round(float(np.mean(np.array(said) == labels)), 4)
    return right


def serve_once(args, server, links, key):
    kind, slo, rate, count = key
    before = server.metrics()
    clients = [subprocess.Popen([*links.inside(f"c{i}"), sys.executable, __file__, "--client", json.dumps(
        [f"{links.server}:{server.grpc}", kind, slo, rate, args.seconds, i])], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for i in range(count)]
    ended = [c.communicate() for c in clients]
    for c, (_, err) in zip(clients, ended):
        if c.returncode != 0:
            sys.exit(f"dynamic_streams: a client failed: {err.strip()[-500:]}")
    after = server.metrics()
    reports = [json.loads(out) for out, _ in ended]
    latencies = sorted(itertools.chain(*(r["latency_ms"] for r in reports)))
    sides = list(itertools.chain(*(r["sides"] for r in reports)))
    exits = {name: value - before.get(name, 0) for name, value in after.items() if name.startswith("fermata_exits") and f'"{kind}-' in name}
    early = sum(value for name, value in exits.items() if 'stage="1"' in name)
    offered = sum(r["offered"] for r in reports)
    return {"service": kind, "slo_ms": slo, "rate": rate, "clients": count, "offered": offered,
            "miss_rate": round(1 - sum(r["on_time"] for r in reports) / offered, 5),
            "median_ms": statistics.median(latencies) if latencies else None,
            "p99_ms": latencies[int(len(latencies) * 0.99)] if latencies else None,
            "accuracy": round(sum(r["right"] for r in reports) / max(len(latencies), 1), 4),
            "sides": {side: sides.count(side) for side in SIDES},
            "left_early": round(early / max(sum(exits.values()), 1), 4)}


def draw(document):
    import drawings
    import plot
    plot.save("dynamic_streams", drawings.DRAWN["dynamic_streams"](document), document)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--client", type=json.loads, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.client:
        return client(*args.client)
    in_own_network()
    mbps, hold_s = streams_traces.load(args.traces)["wifi"]
    slow = [SCALE * value for value in mbps]
    start = random.Random(1)
    shapes = {f"c{i}": (slow, hold_s, start.uniform(0, len(slow) * hold_s)) for i in range(max(CLIENTS))}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        models = repository(pathlib.Path(folder))
        accuracy = measured_accuracy(models)
        with Links(shapes) as links, Server(config_of(models, accuracy), host=links.server) as server:
            links.start()
            for slo, rate, count, kind in itertools.product(SLOS, RATES, CLIENTS, KINDS):
                rows.append(serve_once(args, server, links, (kind, slo, rate, count)))
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    pairs = [(one, two) for one, two in zip(rows[::2], rows[1::2])]
    document = {"traces": "the authors'" if args.traces else "made", "seconds": args.seconds,
                "accuracy": {f"{kind}-{side}": value for (kind, side), value in accuracy.items()},
                "lower_median": sum((one["median_ms"] or 1e9) < (two["median_ms"] or 1e9) for one, two in pairs), "pairs": len(pairs), "rows": rows}
    draw(document)


if __name__ == "__main__":
    main()
