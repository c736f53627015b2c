#!/usr/bin/env python3
"""What one stranger does to the honest client of a stream service, served.

    .deps/test/bin/python bench/attack_streams.py [--seconds 15] [--record]     # a part of make attack

For each attack a server of its own with two emulated workers and the 16 DNNs of bench/streams_setting.py, and a client
of 25 frames a second with 100 ms, first alone, then beside the attack. Exit code 1: it got less than 0.97 of its frames
on time, or less than 0.98 of the accuracy that it has alone."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import record
import server
from attacks import SETTLED, STREAM_HEAD, Stranger, grpc_message, head_of, open_web, web_frame
from attacks_further import neighbour
from attacks_rest import read_all
from http2 import DATA, END_HEADERS, HEADERS, frame
from streams_served import config_of, repository
from streams_setting import ACCURACY, SIDES, VARIANTS

HERE = pathlib.Path(__file__).resolve().parent
LEAST_ON_TIME, LEAST_ACCURACY = 0.97, 0.98
RATE, SLO_MS, WARM_UP_S = 25, 100, 5
SIZES = {v["input_size"]: round(v["request_kb"] * 1000) for v in VARIANTS}
PATH = "/v2/models/cameras/infer"


class Served(server.Started):
    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self._folder.name)
        self.http, self.grpc, metrics = server.free_ports(3)
        config = config_of(repository(folder / "models"), "fermata", False) | {
            "listen": {"http": self.http, "grpc": self.grpc, "metrics": metrics}, "log_level": "warning"}
        (folder / "fermata.yaml").write_text(json.dumps(config))
        self._start([server.BINARY, "serve", "--config", folder / "fermata.yaml"], folder / "log")


def ask(s, parameters, frame=None):
    document = {"parameters": parameters}
    if frame is not None:
        document["inputs"] = [{"name": "frame", "datatype": "BYTES", "shape": [1, 1],
                               "parameters": {"binary_data_size": len(frame) + 4}}]
    head = json.dumps(document).encode()
    body = head if frame is None else head + len(frame).to_bytes(4, "little") + frame
    s.sendall(head_of(len(body), f"Inference-Header-Content-Length: {len(head)}\r\n", PATH) + body)
    return s.recv(65536)


def hellos(stranger, connections, clients, rate, every_s, addresses=1):
    """Clients that only say hello, all that they may."""
    def one(number):
        with stranger.connect(stranger.http, neighbour(number % addresses)) as s:
            while stranger.on():
                for client in range(clients):
                    ask(s, {"stream_client": f"c{number}-{client}", "stream_rate": rate, "stream_slo": SLO_MS * 1000,
                            "stream_hello": True})
                time.sleep(every_s)
    stranger.each(connections, one)


def silent_clients(stranger):
    hellos(stranger, 1, 8, 120, 0.5)


def silent_clients_of_many_connections(stranger):
    hellos(stranger, 30, 8, 120, 0.5)


def silent_clients_of_many_addresses(stranger):
    hellos(stranger, 100, 2, 120, 0.5, 100)


def silent_clients_of_streams(stranger):
    """Over the streams of one gRPC connection, each of which is a connection to the service."""
    from tritonclient.grpc import service_pb2
    request = service_pb2.ModelInferRequest(model_name="cameras")
    request.parameters["stream_client"].string_param = "s"
    request.parameters["stream_rate"].double_param = 120
    request.parameters["stream_slo"].int64_param = SLO_MS * 1000
    request.parameters["stream_hello"].bool_param = True
    hello, streams = grpc_message(request.SerializeToString()), range(1, 201, 2)
    def one(_):
        with stranger.connect(stranger.grpc) as s:
            s.sendall(SETTLED + b"".join(frame(HEADERS, END_HEADERS, stream, STREAM_HEAD) for stream in streams))
            threading.Thread(target=read_all, args=(stranger, s), daemon=True).start()
            while stranger.on():
                s.sendall(b"".join(frame(DATA, 0, stream, hello) for stream in streams))
                time.sleep(0.5)
    stranger.each(1, one)


def silent_clients_of_web_sockets(stranger):
    """Over WebSockets, which say hello as fast as they are answered."""
    hello = web_frame(json.dumps({"parameters": {"stream_client": "w", "stream_rate": 120, "stream_slo": SLO_MS * 1000,
                                                 "stream_hello": True}}).encode(), 1)
    def one(_):
        with stranger.connect(stranger.http) as s:
            open_web(s, b"cameras")
            while stranger.on():
                s.sendall(hello)
                s.recv(65536)
    stranger.each(16, one)


def clients_without_number(stranger):
    hellos(stranger, 1, 256, 0.1, 1.0)


def clients_that_come_again(stranger):
    """Always new ones: names that were never said before."""
    def one(number):
        with stranger.connect(stranger.http) as s:
            for i in range(10**9):
                if not stranger.on():
                    return
                ask(s, {"stream_client": f"n{number}-{i}", "stream_rate": 120, "stream_slo": SLO_MS * 1000,
                        "stream_hello": True})
                ask(s, {"stream_client": f"n{number}-{i}", "stream_leave": True})
    stranger.each(2, one)


def large_frames(stranger):
    """Three clients whose frames are all of the largest size, whatever they are told."""
    def one(number):
        with stranger.connect(stranger.http) as s:
            frame, due = bytes(SIZES[max(SIDES)]), time.monotonic()
            while stranger.on():
                ask(s, {"stream_client": f"l{number}", "stream_rate": RATE, "stream_slo": SLO_MS * 1000,
                        "stream_size": max(SIDES)}, frame)
                due += 1 / RATE
                time.sleep(max(0.0, due - time.monotonic()))
    stranger.each(3, one)


def floods(stranger):
    """Frames as fast as they are refused."""
    def one(number):
        with stranger.connect(stranger.http) as s:
            frame = bytes(SIZES[min(SIDES)])
            while stranger.on():
                ask(s, {"stream_client": f"f{number}", "stream_rate": 10, "stream_slo": SLO_MS * 1000,
                        "stream_size": min(SIDES)}, frame)
    stranger.each(2, one)


def liars(stranger):
    """Clients that say to have any bandwidth, in turns."""
    def one(number):
        with stranger.connect(stranger.http) as s:
            while stranger.on():
                for mbps in (1e12, 1e-9):
                    ask(s, {"stream_client": f"m{number}", "stream_rate": 120, "stream_slo": SLO_MS * 1000,
                            "stream_bandwidth": mbps, "stream_sure_bandwidth": mbps, "stream_hello": True})
                time.sleep(0.1)
    stranger.each(8, one)


ATTACKS = [silent_clients, silent_clients_of_many_connections, silent_clients_of_many_addresses, silent_clients_of_streams,
           silent_clients_of_web_sockets, clients_without_number, clients_that_come_again,
           large_frames, floods, liars]


def client(served, seconds):
    done = subprocess.run([sys.executable, HERE / "streams_client.py", f"127.0.0.1:{served.grpc}", "--slo-ms", str(SLO_MS), "--rate",
                           str(RATE), "--warm-up", str(WARM_UP_S), "--seconds", str(seconds), "--bytes", json.dumps(SIZES)],
                          capture_output=True, text=True)
    if done.returncode != 0:
        return {"on_time": 0.0, "accuracy": 0.0}
    got = json.loads(done.stdout)
    return {"on_time": got["on_time"] / got["offered"],
            "accuracy": sum(ACCURACY[side] for side in got["sides"]) / got["offered"]}


def run(attack, seconds):
    with Served() as served:
        alone = client(served, seconds)
        stranger = Stranger(served.http, served.grpc, 0, 2 + WARM_UP_S + seconds + 5)
        thread = threading.Thread(target=attack, args=(stranger,))
        thread.start()
        time.sleep(2)
        beside = client(served, seconds)
        stranger.end = 0
        thread.join()
    accuracy = beside["accuracy"] / alone["accuracy"]
    row = {"attack": attack.__name__, "alone": alone, "beside": beside, "of_accuracy": accuracy}
    return row | {"harm": beside["on_time"] < LEAST_ON_TIME or accuracy < LEAST_ACCURACY}


def draw(document):
    """bench/results/attack_streams.png."""
    import plot
    rows = document["rows"]
    figure, axis = plot.axes("beside the attack, of what it gets alone", "", width=6.5, height=0.35 * len(rows) + 1.2)
    at = range(len(rows))
    axis.barh([y - 0.2 for y in at], [r["beside"]["on_time"] / r["alone"]["on_time"] for r in rows], 0.38, label="frames on time")
    axis.barh([y + 0.2 for y in at], [r["of_accuracy"] for r in rows], 0.38, label="accuracy")
    axis.axvline(LEAST_ON_TIME, color=plot.NEUTRAL, linestyle="--")
    axis.set_yticks(at, [r["attack"].replace("_", " ") for r in rows])
    axis.invert_yaxis()
    plot.legend(axis)
    plot.says(figure, "What an honest client of a stream service gets beside each attack; dashed: what it must get.")
    figure.savefig(record.RESULTS / "attack_streams.png", bbox_inches="tight")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--record", action="store_true", help="write bench/results/attack_streams.json and .png")
    parser.add_argument("--draw", action="store_true", help="only the plot, from the record")
    options = parser.parse_args()
    if options.draw:
        return draw(record.read("attack_streams"))
    rows = []
    for attack in ATTACKS:
        if options.only and attack.__name__ not in options.only.replace(",", " ").split():
            continue
        rows.append(row := run(attack, options.seconds))
        print(f"{row['attack']:36} on time {row['alone']['on_time']:.3f} -> {row['beside']['on_time']:.3f}, accuracy "
              f"{row['alone']['accuracy']:.3f} -> {row['beside']['accuracy']:.3f} ({row['of_accuracy']:.3f}): "
              f"{'harm' if row['harm'] else 'no harm'}", flush=True)
    if options.record:
        record.write("attack_streams", document := {"seconds": options.seconds, "rows": rows})
        try:
            draw(document)
        except ImportError:
            print("no plot: matplotlib is not there; --draw draws it from the record")
    sys.exit(any(row["harm"] for row in rows))


if __name__ == "__main__":
    main()
