#!/usr/bin/env python3
"""The demo's text pipeline with real models under a load that comes and goes.

Each configuration gets the same photographs at the same moments: every fixed pair of variants, any variant as each
request can afford it, and the plan of an adapter. How many are answered in time, and how many of the lines on
them are read. Needs the packaged models and zoo/shrink_ocr.py's.

    bench/signs.py [--binary build/fermata] [--seconds 300] [--rates 0.5 2.5] [--only adapter any]
    bench/signs.py --alone

`--only` leaves the other configurations of an earlier run, under the same load, as they are in the record, so that each may be
run for itself when nothing else uses the machine. `--alone` sends each photograph once, one after the other, to every
fixed pair: what they read.
"""

import argparse
import concurrent.futures
import json
import math
import pathlib
import re
import statistics
import struct
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import record

ROOT = pathlib.Path(__file__).resolve().parent.parent
ZOO = ROOT / "zoo"
PHOTOGRAPHS = ZOO / "data" / "photographs"
SIZES = {"small": "-small", "large": ""}
USUAL_RATES = [0.5, 2.5]
PAIRS = ("large/large", "small/large", "large/small", "small/small")


def configuration(which, slo_ms):
    """`any`, `adapter`, or the sizes of detection and recognition."""
    text = (ZOO / "signs-variants.yaml").read_text()
    text = text.replace("models: repository", f"models: {ZOO}/repository").replace(
        "characters: repository", f"characters: {ZOO}/repository")
    text = re.sub(r"listen:.*", "listen: {http: 0, grpc: 0, metrics: 0}", text)
    text = text.replace("slo_ms: 3000", f"slo_ms: {slo_ms}")
    if which != "adapter":
        text = re.sub(r"    adapter:.*\n", "", text)
    if which not in ("adapter", "any"):
        for stage, size in zip(("detection", "recognition"), which.split("/")):
            text = re.sub(r"variants: \[{model: ocr-%s-small.*\]" % stage, f"model: ocr-{stage}{SIZES[size]}", text)
    return text


class Server:
    def __init__(self, binary, text, folder):
        config = pathlib.Path(folder) / "fermata.yaml"
        config.write_text(text)
        self.log = (pathlib.Path(folder) / "log").open("w")
        self.process = subprocess.Popen([binary, "serve", "--config", config], stdout=subprocess.PIPE,
                                        stderr=self.log, text=True)
        for line in self.process.stdout:
            found = re.search(r"http=\S+:(\d+)", line)
            if found:
                self.url = f"http://127.0.0.1:{found[1]}/v2/"
                return
        raise SystemExit("the server did not start")

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def texts(reply):
    head = int(reply.headers.get("Inference-Header-Content-Length", "0"))
    body = reply.read()
    offset, found = head, []
    for output in json.loads(body[:head] if head else body)["outputs"]:
        size = output.get("parameters", {}).get("binary_data_size")
        if output["name"] != "text":
            offset += size or 0
        elif size is None:
            found = output["data"]
        else:
            at = offset
            while at < offset + size:
                length, = struct.unpack_from("<I", body, at)
                found.append(body[at + 4:at + 4 + length].decode())
                at += 4 + length
            offset += size
    return ["".join(text.lower().split()) for text in found]


def ask(url, picture, known, due):
    time.sleep(max(0.0, due - time.monotonic()))
    late = time.monotonic() - due
    request = urllib.request.Request(url + "models/signs/infer", data=picture,
                                     headers={"Inference-Header-Content-Length": "0"})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            found = texts(reply)
    except urllib.error.HTTPError:
        return {"answered": False, "sent_late": late}
    right = sum("".join(line.lower().split()) in found for line in known)
    return {"answered": True, "ms": (time.monotonic() - due) * 1e3, "lines": len(known), "right": right,
            "sent_late": late}


def moments(seconds, least, most, period=60):
    """A rate that swings between two, as moments of requests."""
    times, at = [], 0.0
    while at < seconds:
        times.append(at)
        at += 1 / (least + (most - least) * (1 - math.cos(2 * math.pi * at / period)) / 2)
    return times


def run(given, which, pictures):
    with tempfile.TemporaryDirectory() as folder:
        server = Server(given.binary, configuration(which, given.slo_ms), folder)
        for picture, known in pictures[:3]:
            ask(server.url, picture, known, time.monotonic())
        start = time.monotonic() + 0.5
        times = moments(given.seconds, *given.rates)
        with concurrent.futures.ThreadPoolExecutor(200) as pool:
            rows = list(pool.map(lambda k: ask(server.url, *pictures[k % len(pictures)], start + times[k]),
                                 range(len(times))))
        decisions = json.load(urllib.request.urlopen(server.url + "fermata/decisions"))["pipelines"]
        server.stop()
    return summary(given, rows) | {"decisions": len(decisions), "load_before": record.LOAD_BEFORE,
                                   "windows": windows(given, times, rows)}


def windows(given, times, rows):
    """Of every ten seconds: how many came, how many were answered in time, and how many lines of these were right."""
    found = []
    for first in range(0, math.ceil(given.seconds), 10):
        own = [row for at, row in zip(times, rows) if first <= at < first + 10]
        good = [row for row in own if row["answered"] and row["ms"] <= given.slo_ms]
        lines = sum(row["lines"] for row in good)
        found.append([len(own), len(good), round(sum(row["right"] for row in good) / max(lines, 1), 3)])
    return found


def summary(given, rows):
    answered = [row for row in rows if row["answered"]]
    in_time = [row for row in answered if row["ms"] <= given.slo_ms]
    lines = sum(row["lines"] for row in answered)
    return {"offered": len(rows), "on_time": len(in_time) / len(rows),
            "accuracy": sum(row["right"] for row in answered) / max(lines, 1),
            "p50_ms": statistics.median(row["ms"] for row in answered) if answered else None,
            "sent_late_ms": 1e3 * max(row["sent_late"] for row in rows)}


def read_alone(given, which, pictures):
    """Every photograph, nobody beside it."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(given.binary, configuration(which, 60_000), folder)
        rows = [ask(server.url, picture, known, time.monotonic()) for picture, known in pictures]
        server.stop()
    return {"lines": sum(row["lines"] for row in rows), "read": sum(row["right"] for row in rows),
            "p50_ms": round(statistics.median(row["ms"] for row in rows), 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "build/fermata")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--slo-ms", type=int, default=3000)
    parser.add_argument("--rates", type=float, nargs=2, default=USUAL_RATES,
                        help="the least and the most, a second; each load has a record of its own")
    parser.add_argument("--only", nargs="+", default=[*PAIRS, "any", "adapter"])
    parser.add_argument("--alone", action="store_true", help="only what the fixed pairs read")
    given = parser.parse_args()
    if not (ZOO / "repository/ocr-detection-small/1/model.onnx").exists():
        raise SystemExit("no small variants: make fetch, then .deps/train/bin/python zoo/shrink_ocr.py")
    known = json.loads((PHOTOGRAPHS / "lines.json").read_text())
    pictures = [((PHOTOGRAPHS / name).read_bytes(), lines) for name, lines in known.items()]
    if given.alone:
        found = {}
        for which in PAIRS:
            found[which] = read_alone(given, which, pictures)
            print(which, json.dumps(found[which]), flush=True)
        return record.write("signs_alone", found)
    load = {"seconds": given.seconds, "slo_ms": given.slo_ms, "rates": given.rates}
    name = "signs" if given.rates == USUAL_RATES else "signs_{:g}_{:g}".format(*given.rates)
    earlier = record.read(name)
    found = earlier.get("configurations", {}) if earlier.get("load") == load else {}
    kept = {which: row for which, row in found.items() if which not in given.only}
    for which in given.only:
        kept[which] = run(given, which, pictures)
        print(which, json.dumps(kept[which]), flush=True)
        before = record.left(earlier) if set(kept) > set(given.only) else None
        record.write(name, {"load": load, "configurations": kept}, before=before)


if __name__ == "__main__":
    main()
