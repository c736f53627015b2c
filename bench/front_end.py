#!/usr/bin/env python3
"""What the server adds to its protocols: a tiny model behind Fermata against bare
servers that only echo, over gRPC and HTTP, with the same load generator.

Two figures: throughput as a ratio to the echo (at least 0.75), and the time that
is added to the median at concurrency 1 beyond the echo and the model's own run
time (at most 50 µs). Runs alternate between the two servers and each figure is
the median of its ratios, so that a machine's moods hit both. Beside the rates
stands the processor time a request, which neighbours on the machine blur less.

    bench/front_end.py [--runs 7] [--requests 30000]

Needs h2load (Debian's nghttp2-client) and build/bench_echo_{grpc,http} (make bench).
"""

import argparse
import contextlib
import pathlib
import re
import resource
import socket
import statistics
import struct
import subprocess
import tempfile
import time

from server import ROOT, Server, cpu_seconds, free_ports

MODEL = "dense"  # of the test models: one matrix product, 16 to 8
VALUES = struct.pack("<16f", *range(16))
MUST_RATIO, MUST_ADDED_US = 0.75, 50


def field(number, data):
    """One length-delimited field of protobuf, shorter than 128 bytes."""
    return bytes([number << 3 | 2, len(data)]) + data


def grpc_body(model=MODEL):
    tensor = field(1, b"x") + field(2, b"FP32") + field(3, bytes([1, 16]))
    message = field(1, model.encode()) + field(5, tensor) + field(7, VALUES)
    return b"\0" + struct.pack(">I", len(message)) + message


def http_body():
    return (b'{"inputs":[{"name":"x","shape":[1,16],"datatype":"FP32",'
            b'"parameters":{"binary_data_size":64}}],"parameters":{"binary_data_output":true}}')


class Protocol:
    def __init__(self, name, body, path, headers, flags):
        self.name, self.path, self.flags = name, path, flags
        self.headers = [part for header in headers for part in ("-H", header)]
        self.file = tempfile.NamedTemporaryFile()
        self.file.write(body)
        self.file.flush()

    def load(self, port, requests, connections, streams):
        """Requests a second and the median time of one, in µs; all must succeed."""
        with tempfile.NamedTemporaryFile() as log:
            done = subprocess.run(
                ["h2load", *self.flags, "-n", str(requests), "-c", str(connections), "-m",
                 str(streams), "-d", self.file.name, f"--log-file={log.name}", *self.headers,
                 f"http://127.0.0.1:{port}{self.path}"], capture_output=True, text=True, check=True)
            rows = [line.split() for line in pathlib.Path(log.name).read_text().splitlines()]
        if len(rows) != requests or any(row[1] != "200" for row in rows):
            raise RuntimeError(f"{self.name}: not every request succeeded:\n{done.stdout}")
        rate = float(re.search(r"([\d.]+) req/s", done.stdout)[1])
        return rate, statistics.median(float(row[2]) for row in rows)


def grpc_protocol(model=MODEL):
    return Protocol("grpc", grpc_body(model), "/inference.GRPCInferenceService/ModelInfer",
                    ["te: trailers", "content-type: application/grpc"], [])


PROTOCOLS = [
    grpc_protocol(),
    Protocol("http", http_body() + VALUES, f"/v2/models/{MODEL}/infer",
             [f"Inference-Header-Content-Length: {len(http_body())}"], ["--h1"]),
]


@contextlib.contextmanager
def echo(protocol):
    port, = free_ports(1)
    process = subprocess.Popen([ROOT / "build" / f"bench_echo_{protocol}", str(port)],
                               stdout=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


def client_seconds():
    """Processor time so far of the load generators that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def saturate(protocol, port, pid, requests):
    """Requests a second, and the processor µs of one in the server and in the client."""
    connections, streams = (8, 8) if protocol.name == "grpc" else (32, 1)
    before = cpu_seconds(pid), client_seconds()
    rate, _ = protocol.load(port, requests, connections, streams)
    after = cpu_seconds(pid), client_seconds()
    return (rate, *((b - a) / requests * 1e6 for a, b in zip(before, after)))


def totals(server):
    """Requests answered, and the µs they spent in the model, from the metrics."""
    metrics = server.metrics()
    labels = f'{{model="{MODEL}",version="1"}}'
    model = sum(metrics[f"nv_inference_compute_{step}_duration_us{labels}"]
                for step in ("input", "infer", "output"))
    return metrics[f"nv_inference_request_success{labels}"], model


def measure(protocol, server, runs, requests):
    port = server.grpc if protocol.name == "grpc" else server.http
    rows = []
    with echo(protocol.name) as (bare, bare_pid):
        for _ in range(runs):
            bare_rps, bare_cpu, client_cpu = saturate(protocol, bare, bare_pid, requests)
            before, _ = totals(server)
            ours_rps, ours_cpu, _ = saturate(protocol, port, server.pid, requests)
            if totals(server)[0] - before != requests:
                raise RuntimeError(f"{protocol.name}: the model did not answer every request")
            _, bare_us = protocol.load(bare, requests // 10, 1, 1)
            count, model = totals(server)
            _, ours_us = protocol.load(port, requests // 10, 1, 1)
            count, model = (b - a for a, b in zip((count, model), totals(server)))
            rows.append({"echo_rps": bare_rps, "rps": ours_rps, "ratio": ours_rps / bare_rps,
                         "echo_cpu_us": bare_cpu, "cpu_us": ours_cpu, "client_cpu_us": client_cpu,
                         "echo_us": bare_us, "us": ours_us, "model_us": model / count,
                         "added_us": ours_us - bare_us - model / count})
    return {"protocol": protocol.name, "runs": rows,
            **{key: statistics.median(row[key] for row in rows) for key in rows[0]}}


def main():
    import drawings  # which others that measure do without
    import plot
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--requests", type=int, default=30_000)
    arguments = parser.parse_args()
    with Server({"models": str(ROOT / "tests/data/repository")}) as server:
        results = [measure(protocol, server, arguments.runs, arguments.requests)
                   for protocol in PROTOCOLS]
    columns = ["protocol", "echo_rps", "rps", "ratio", "echo_cpu_us", "cpu_us", "client_cpu_us",
               "echo_us", "us", "model_us", "added_us"]
    print(plot.table(columns, [[result[key] for key in columns] for result in results]))
    document = {"must": {"ratio": MUST_RATIO, "added_us": MUST_ADDED_US}, "results": results}
    print(plot.save("front_end", drawings.DRAWN["front_end"](document), document))


if __name__ == "__main__":
    main()
