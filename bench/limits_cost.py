#!/usr/bin/env python3
"""What a request costs the front ends, in instructions (callgrind), and how much of that the limits on connections take.

    .deps/test/bin/python bench/limits_cost.py [--binary now=build/fermata --binary before=...] [--record]

One client asks for one small tensor after the other over one connection, of HTTP and then of gRPC. What a run takes besides
its requests is in the counts of a short and of a long run, and goes. `watch` is what looks at the frames of gRPC's
connections (serve/grpc/watched_reads.cc), with the copies into and out of the kernel; `shares` is who may hold what
(GrpcConnections). What a limit costs inside of another function (a counter of bytes) is in the total alone: for that,
give the binary of a commit without it too. Totals vary by some percent, since threads that look around do so by the clock; the parts
do not. With --record writes bench/results/limits_cost.json. Needs valgrind."""

import argparse
import http.client
import json
import pathlib
import re
import subprocess
import tempfile
import time

import attack
import record
import server

FEW, MANY = 100, 500
PARTS = {"watch": (r"\brecvmsg\b", r"\bsendmsg\b"), "shares": ("GrpcConnections::share_of",)}


class UnderValgrind(server.Started):
    def __init__(self, binary):
        self._folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self._folder.name)
        server.emulated_model(folder / "models", "quick", 0.01, 0.05, 8)
        self.http, self.grpc, metrics = server.free_ports(3)
        (folder / "fermata.yaml").write_text(json.dumps({
            "models": str(folder / "models"), "log_level": "warning", "workers": {"count": 1, "executor": "emulated"},
            "services": {"quick": {"slo_ms": 60_000}},
            "listen": {"http": self.http, "grpc": self.grpc, "metrics": metrics}}))
        self.out, self.log = folder / "out", folder / "log"
        self._start(["valgrind", "--tool=callgrind", f"--callgrind-out-file={self.out}", binary, "serve", "--config",
                     folder / "fermata.yaml"], self.log)

    def end(self):
        """Instructions in all, and of each of PARTS, with what it calls."""
        self._process.terminate()
        self._process.wait(120)
        total = int(re.search(r"Collected : (\d+)", self.log.read_text())[1])
        said = subprocess.run(["callgrind_annotate", "--auto=no", "--inclusive=yes", "--threshold=100", self.out], capture_output=True, text=True,
                              check=True).stdout
        counts = {"total": total}
        for part, names in PARTS.items():
            # The most of each: what was inlined into a function has lines of its own, which that of the function includes.
            found = [re.findall(rf"^ *([\d,]+) .*{name}", said, re.M) for name in names]
            counts[part] = sum(max((int(count.replace(",", "")) for count in each), default=0) for each in found)
        return counts


def ask_http(served, requests):
    connection = http.client.HTTPConnection("127.0.0.1", served.http, timeout=60)
    for _ in range(requests):
        assert attack.infer_over_http(connection, "quick")


def ask_grpc(served, requests):
    import grpc
    from tritonclient.grpc import service_pb2
    request = service_pb2.ModelInferRequest(model_name="quick")
    request.inputs.add(name="x", datatype="FP32", shape=[1, 64])
    request.raw_input_contents.append(attack.INPUT)
    wire = request.SerializeToString()
    with grpc.insecure_channel(f"127.0.0.1:{served.grpc}") as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        for _ in range(requests):
            call(wire, timeout=60)


def cost(binary, ask):
    """Instructions of one request."""
    counts = []
    for requests in (FEW, MANY):
        with UnderValgrind(binary) as served:
            start = time.monotonic()
            ask(served, requests)
            print(f"{ask.__name__} {requests} requests in {time.monotonic() - start:.1f} s", flush=True)
            counts.append(served.end())
    return {part: (counts[1][part] - counts[0][part]) / (MANY - FEW) for part in counts[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", action="append", help="NAME=PATH of a server; may be given again")
    parser.add_argument("--record", action="store_true", help="write bench/results/limits_cost.json")
    options = parser.parse_args()
    rows = []
    for binary in options.binary or [f"now={server.BINARY}"]:
        name, _, path = binary.partition("=")
        for ask in (ask_http, ask_grpc):
            row = {"server": name, "protocol": ask.__name__.removeprefix("ask_")} | cost(path, ask)
            print(f"{name:8} {row['protocol']:5} {row['total']:9.0f} instructions a request, " +
                  ", ".join(f"{part} {row[part]:.0f} ({row[part] / row['total']:.2%})" for part in PARTS), flush=True)
            rows.append(row)
    if options.record:
        record.write("limits_cost", {"requests": [FEW, MANY], "instructions_per_request": rows})


if __name__ == "__main__":
    main()
