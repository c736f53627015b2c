#!/usr/bin/env python3
"""A dynamic DNN against static ones (Jellyfish's section 8): switching, early exits, prefetching.

    bench/dynamic.py [--traces FOLDER] [--requests 200]
    bench/dynamic.py --virtual [--traces FOLDER]        # only what is in virtual time; the rest stays

Figure 19 and section 7.7 in virtual time, with the DNNs of bench/streams.py: frames that ran on the DNN
before the wanted one, because that was not loaded yet, and how often a switch found its DNN there. Figure
20 on a real server with the zoo's scans-slim-* and scans-fixed-*: what a switch costs, and the latency of
batches with early exits and without. Record: bench/results/dynamic.json.
"""

import argparse
import http.client
import itertools
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import time

import numpy as np
from PIL import Image

import record
import streams_traces
from server import BINARY, Server
from streams import ROOT, run_of, settings, simulate

ZOO = ROOT / "zoo"
SIDES = (16, 20, 24, 28)
BATCHES = (1, 4, 8, 16)
LOAD_MS = 175  # of a static DNN, the middle of what the paper measured
SWITCH_MS = 1  # of a dynamic one, more than what is measured below
JOINING_S = 5  # until the clients have come and the plans have found their DNNs; runs end five seconds later
MEMORY_MB = 10  # that each static DNN is said to take, of workers of one and a half times that


# -- in virtual time -------------------------------------------------------------------------------

def mismatches(binary, traces):
    """One worker without prefetching, as in figure 19."""
    keys = list(itertools.product(("lte", "wifi"), (50, 100, 150), (15, 30), (1, 2, 4)))
    found = {}
    for kind, load_ms in (("static", LOAD_MS), ("dynamic", SWITCH_MS)):
        found[kind] = simulate(binary, [run_of(traces[name], [(slo, rate)] * count, 1, workers=1, room=1, load_ms=load_ms)
                                        for name, slo, rate, count in keys])
    rows = [{"trace": name, "slo_ms": slo, "rate": rate, "clients": count} | {
        f"{kind}_{what}": found[kind][i][what] for kind in found for what in ("stale", "miss_rate", "accuracy")}
        for i, (name, slo, rate, count) in enumerate(keys)]
    stale = {kind: sum(r["stale"] for r in found[kind]) for kind in found}
    return {"rows": rows, **stale, "share": round(stale["dynamic"] / max(stale["static"], 1), 4)}


def prefetching(binary, traces):
    """Two workers of which each holds some of the sixteen; the settings of figure 12. A shorter run is the beginning of a
    longer one: what it counts, taken off, leaves the time after clients came."""
    rows = []
    for name, room in itertools.product(traces, (1, 3, 5)):
        done, begun = ([simulate(binary, [run_of(traces[name], [(slo, rate)] * count, 1, seconds, room=room, load_ms=LOAD_MS)
                                          for slo, rate, count in settings()]) for seconds in (120, JOINING_S)])
        there, loaded = sum(r["prefetched"] for r in done), sum(r["fetched"] for r in done)
        later = there - sum(r["prefetched"] for r in begun), loaded - sum(r["fetched"] for r in begun)
        rows.append({"trace": name, "room": room, "switches": there + loaded, "hits": round(there / max(there + loaded, 1), 4),
                     "hits_after_joining": round(later[0] / max(sum(later), 1), 4),
                     "near": round(sum(r["near_switches"] for r in done) / max(sum(r["switches"] for r in done), 1), 4),
                     "stale": round(sum(r["stale"] for r in done) / sum(r["offered"] for r in done), 5),
                     "miss_rate": round(statistics.mean(r["miss_rate"] for r in done), 5)})
    return rows


# -- served ----------------------------------------------------------------------------------------

def repository(folder):
    """Widths as they are in the zoo, the same that never widen (exits-SIDE) and that none leaves early (whole-SIDE), and
    static ones; all profiled here."""
    for side in SIDES:
        for kind in ("slim", "fixed"):
            shutil.copytree(ZOO / "repository" / f"scans-{kind}-{side}", folder / f"scans-{kind}-{side}")
        text = (folder / f"scans-slim-{side}" / "config.pbtxt").read_text()
        for kind, gone in (("exits", "widen|weights_of"), ("whole", "exit_above|widen|weights_of")):
            own = re.sub(f'parameters {{ key: "({gone})".*\n', "", text).replace(f'"scans-slim-{side}"', f'"{kind}-{side}"')
            (folder / f"{kind}-{side}").mkdir()
            (folder / f"{kind}-{side}" / "config.pbtxt").write_text(
                own + 'parameters { key: "weights_of" value { string_value: "scans-slim-28" } }\n')
    for model in sorted(folder.iterdir()):
        subprocess.run([BINARY, "profile", model, "--runs", "30"], check=True, capture_output=True)
        profile = json.loads((model / "profile.json").read_text())
        (model / "profile.json").write_text(json.dumps(profile | {"memory_mb": MEMORY_MB, "static_mb": MEMORY_MB}))
    return folder


def pictures(most=None):
    pixels = np.load(ZOO / "data" / "scans-slim" / "test-pixels.npy")[:most]
    labels = np.load(ZOO / "data" / "scans-slim" / "test-labels.npy")[:most]
    sized = {}
    for side in SIDES:
        small = np.stack([np.asarray(Image.fromarray(p).resize((side, side), Image.Resampling.BILINEAR)) for p in pixels])
        sized[side] = (small.astype(np.float32) / 255)[:, None].repeat(3, 1)
    return sized, labels


class Asker:
    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.http)

    def ask(self, model, image):
        """Milliseconds, and the labels."""
        raw = np.ascontiguousarray(image).tobytes()
        head = json.dumps({"inputs": [{"name": "image", "datatype": "FP32", "shape": list(image.shape),
                                       "parameters": {"binary_data_size": len(raw)}}], "outputs": [{"name": "label"}]}).encode()
        start = time.perf_counter()
        self.connection.request("POST", f"/v2/models/{model}/infer", head + raw, {
            "Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"})
        reply = json.loads(self.connection.getresponse().read())
        took = (time.perf_counter() - start) * 1e3
        if "error" in reply:
            raise SystemExit(f"dynamic: {model}: {reply['error']}")
        return took, reply["outputs"][0]["data"]


def switching(models, images, requests):
    """How much longer the widest takes after the narrowest than after itself, on workers that have room
    for one static DNN; medians."""
    workers = {"count": 1, "memory_mb": 1.5 * MEMORY_MB, "residency": "on_demand"}
    rows = {}
    with Server({"models": str(models), "workers": workers}) as server:
        asker = Asker(server)
        for kind in ("scans-slim", "scans-fixed"):
            after, steady = [], []
            for i in range(requests):
                asker.ask(f"{kind}-16", images[16][i:i + 1])
                after.append(asker.ask(f"{kind}-28", images[28][i:i + 1])[0])
                steady.append(asker.ask(f"{kind}-28", images[28][i:i + 1])[0])
            rows[kind] = {"after_switch_ms": round(statistics.median(after), 3), "steady_ms": round(statistics.median(steady), 3),
                          "switch_ms": round(statistics.median(a - s for a, s in zip(after, steady)), 3)}
    return rows


def exits(models, images, labels, requests):
    """Median latency of requests of a batch, and how many of their digits are right; the kinds take turns."""
    rows = []
    with Server({"models": str(models), "workers": {"count": 1}}) as server:
        asker = Asker(server)
        for side, batch in itertools.product(SIDES, BATCHES):
            took, right = {}, {}
            for i in range(requests):
                at = np.arange(i * batch, (i + 1) * batch) % len(labels)
                for kind in ("exits", "scans-slim", "whole", "scans-fixed"):
                    ms, said = asker.ask(f"{kind}-{side}", images[side][at])
                    took.setdefault(kind, []).append(ms)
                    right.setdefault(kind, []).extend(np.array(said) == labels[at])
            rows.append({"side": side, "batch": batch} | {
                f"{kind}_{what}": round(float(value), 4) for kind in took for what, value in (
                    ("ms", statistics.median(took[kind])), ("accuracy", np.mean(right[kind])))}
                | {"ratio": round(statistics.median(took["exits"]) / statistics.median(took["whole"]), 3)})
        left = {key: value for key, value in server.metrics().items()
                if key.startswith(("fermata_exits", "fermata_widened")) and "scans-slim" in key}
    return {"rows": rows, "metrics": left}


def draw(document, **about):
    import drawings
    import plot
    plot.save("dynamic", drawings.DRAWN["dynamic"](document), document, **about)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "build" / "bench" / "bench_streams")
    parser.add_argument("--traces", help="folder of lte_upload_trace.csv and wifi_trace.csv; absent: made ones")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--virtual", action="store_true", help="leave what was measured on a server as it is")
    args = parser.parse_args()
    traces = streams_traces.load(args.traces)
    document = {"traces": "the authors'" if args.traces else "made", "mismatches": mismatches(args.binary, traces),
                "prefetching": prefetching(args.binary, traces)}
    if args.virtual:
        earlier = record.read("dynamic")
        if not earlier:
            parser.error("there is no record whose served numbers could stay")
        before = record.left(earlier)
        kept = {key: value for key, value in earlier.items() if not key.startswith("drawn")}
        draw(kept | document, before=before)
        print(json.dumps(document["prefetching"], indent=1))
        return
    images, labels = pictures()
    with tempfile.TemporaryDirectory() as folder:
        models = repository(pathlib.Path(folder))
        document["switching"] = switching(models, images, args.requests)
        document["exits"] = exits(models, images, labels, args.requests)
    draw(document)
    told = {key: document[key] for key in ("prefetching", "switching", "exits")}
    told["mismatches"] = {key: value for key, value in document["mismatches"].items() if key != "rows"}
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
