#!/usr/bin/env python3
"""What `fermata stream` costs, how well it knows its link, and what a stall of the server does to it.

A real server with the zoo's detector; the command behind a link whose way up `tc` shapes
(streams_links.py). Must hold: the bandwidth estimate is within 15 % of the shaped rate at the median;
beside encoding a frame costs the client less than 1 ms of processor time; after the server stood still
for 5 s no frame that is sent from one second later on is late. Needs root.

    bench/stream_client.py [--rates 1.2,3,6,12,24] [--qualities 90,20] [--seconds 12]
"""

import argparse
import io
import itertools
import json
import os
import pathlib
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from PIL import Image

import record
from streams_links import Links, in_own_network

ROOT = pathlib.Path(__file__).resolve().parent.parent
FERMATA = ROOT / "build" / "fermata"
CLIENT = "client"
PICTURE = ROOT / "zoo/data/shapes/scene-00.jpg"
SLO_MS, RATE = 200, 15
SETTLED_MS = 4500  # by then a link has been probed
OFF, COST_MS, STALL_S = 0.15, 1.0, 5


class Server:
    def __init__(self, folder):
        config = folder / "fermata.yaml"
        text = (ROOT / "zoo/fermata.yaml").read_text()
        shapes = text[text.index("  shapes-jpeg-96:"):text.index("  # The same with a detector of a package")]
        config.write_text(f"models: {folder}/models\nlisten: {{host: {Links.server}, public: true, http: 0, "
                          f"grpc: 0, metrics: 0}}\nworkers: {{count: 1, threads: 1}}\n"
                          f"services:\n{shapes}")
        (folder / "models").mkdir()
        for model in (ROOT / "zoo/repository").glob("shapes-*"):
            (folder / "models" / model.name).symlink_to(model)
        self.log = (folder / "log").open("w")
        self.process = subprocess.Popen([FERMATA, "serve", "--config", config],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        port = re.search(r"grpc=\S+:(\d+)", self.process.stdout.readline())[1]
        self.grpc = f"{Links.server}:{port}"

    def stop(self):
        self.process.terminate()
        self.process.wait()


def command(link, server, *options):
    return [*link.inside(CLIENT), FERMATA, "stream", PICTURE, "--loop", "--service",
            "shapes", "--slo", str(SLO_MS), "--rate", str(RATE), "--url", server.grpc,
            "--outputs", "scores", *options]


def streamed(link, server, seconds, *more):
    """The lines of answers, the summary, and processor time a frame in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command(link, server, "--duration", str(seconds), *more), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [line for line in lines if "outputs" in line], lines[-1]["summary"], used * 1e3


def frame_kb(side, quality):
    """Of the picture that is sent, as a JPEG of that size."""
    encoded = io.BytesIO()
    Image.open(PICTURE).resize((side, side), Image.Resampling.BOX).save(encoded, "JPEG", quality=quality)
    return round(encoded.tell() / 1e3, 1)


def by_rate(link, server, rates, qualities, seconds):
    for mbps, quality in itertools.product(rates, qualities):
        link.shape(CLIENT, mbps)
        answers, summary, _ = streamed(link, server, seconds, "--quality", str(quality))
        known = [line["bandwidth_mbps"] / mbps for line in answers if line["at_ms"] > SETTLED_MS]
        side = statistics.median_low([line["input_size"] for line in answers])
        yield {"mbps": mbps, "quality": quality, "frame_kb": frame_kb(side, quality), "estimate_over_rate_p50": round(statistics.median(known), 3),
               "off_p50": round(statistics.median(abs(k - 1) for k in known), 3),
               "frames": summary["frames"], "on_time": summary["on_time"],
               "late": summary["late"], "dropped": summary["dropped"],
               "encoding_ms": round(summary["encoding_ms"], 3)}


def cost(link, server):
    """Processor time of a frame: what a longer run takes more than a short one, which starts too."""
    link.shape(CLIENT, 100)
    (_, short, used_short), (_, long, used_long) = streamed(link, server, 2), streamed(link, server, 14)
    frame = (used_long - used_short) / (long["frames"] - short["frames"])
    return {"frames": long["frames"] - short["frames"], "processor_ms": round(frame, 3),
            "encoding_ms": round(long["encoding_ms"], 3),
            "beside_encoding_ms": round(frame - long["encoding_ms"], 3)}


def after_a_stall(link, server):
    """Latencies of frames that were sent from one second after the stall on."""
    link.shape(CLIENT, 20)
    process = subprocess.Popen(command(link, server), stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.DEVNULL)
    for _ in range(30):
        process.stdout.readline()
    os.kill(server.process.pid, signal.SIGSTOP)
    time.sleep(STALL_S)
    os.kill(server.process.pid, signal.SIGCONT)
    resumed = time.monotonic()
    later = []
    while time.monotonic() < resumed + 6:
        line = json.loads(process.stdout.readline())
        sent = time.monotonic() - line.get("latency_ms", 0) / 1e3
        if "outputs" in line and sent > resumed + 1:
            later.append(line["latency_ms"])
    # The child of `ip netns exec` is the command itself.
    process.send_signal(signal.SIGINT)
    summary = json.loads(process.communicate()[0].splitlines()[-1])["summary"]
    return {"stall_s": STALL_S, "slo_ms": SLO_MS, "frames_later": len(later),
            "latest_ms": round(max(later, default=0), 1), "dropped": summary["dropped"],
            "late_in_all": summary["late"]}


def missed(result):
    for row in result["by_rate"]:
        if row["off_p50"] > OFF:
            yield f"{row['mbps']} Mbit/s, {row['frame_kb']} kB: the estimate is off by {row['off_p50']:.0%} at the median"
    if result["cost"]["beside_encoding_ms"] > COST_MS:
        yield f"beside encoding a frame costs {result['cost']['beside_encoding_ms']} ms"
    stall = result["stall"]
    if stall["frames_later"] == 0 or stall["latest_ms"] > SLO_MS:
        yield f"after the stall: {stall}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", default="1.2,3,6,12,24", help="of the way up, Mbit/s")
    parser.add_argument("--qualities", default="90,20", help="of the JPEGs: how large frames are")
    parser.add_argument("--seconds", type=float, default=12, help="of each rate")
    options = parser.parse_args()
    rates = [float(rate) for rate in options.rates.split(",")]
    qualities = [int(quality) for quality in options.qualities.split(",")]
    in_own_network()
    with tempfile.TemporaryDirectory() as folder, Links({CLIENT: ([rates[0]], 1, 0)}) as link:
        server = Server(pathlib.Path(folder))
        try:
            result = {"slo_ms": SLO_MS, "rate_rps": RATE,
                      "by_rate": list(by_rate(link, server, rates, qualities, options.seconds)),
                      "cost": cost(link, server), "stall": after_a_stall(link, server)}
        finally:
            server.stop()
    record.write("stream_client", result)
    print(json.dumps(result, indent=2))
    sys.exit("\n".join(missed(result)) or None)


if __name__ == "__main__":
    main()
