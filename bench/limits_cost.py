#!/usr/bin/env python3
"""What a request costs the front ends, in instructions (callgrind), and how much of that the limits take.

    .deps/test/bin/python bench/limits_cost.py [--binary now=build/fermata --binary before=...] [--runs 5] [--record]

One client asks for one small tensor after the other over one connection, of HTTP and then of gRPC. What a run takes besides
its requests is in the counts of a short and of a long run, and goes. A limit is what finds out, counts or bounds what one
client makes the server hold or do:

    watch     looks at the frames of gRPC's connections (serve/grpc/watched_reads.cc), with the way into the system
    shares    finds the connection of a call and what that may hold
    answers   holds room for an answer of gRPC until it is sent
    weights   what a message or a body takes once it is parsed
    patience  memory for a body as it comes, and how fast bytes come and go over HTTP
    budgets   takes from budgets of bytes and gives back, also for the others, where it is counted too

Only in the total: a place in the queue of a service (some twenty instructions), and the clock. Parts of a total are exact, but
totals vary by some percent, since threads that wait for each other look around: the median of all runs is said, with the least and
the most. Some limits are older than others: what is new since a commit is the difference from the parts of its binary. With
--record writes bench/results/limits_cost.json. Needs valgrind."""

import argparse
import http.client
import json
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

import attack
import record
import server

FEW, MANY = 100, 500
# By function, with all that these call, or by function and file without.
CALLED = {"watch": (r"\brecvmsg\b", r"\bsendmsg\b"), "shares": (r"Grpc(?:House|Connections)::share_of\b",),
          "answers": (r"GrpcHouse::hold_answer\b",), "weights": (r"serve::hold_parsed\b", r"Decoder::hold\b")}
OWN = {"patience": r"/(?:http_patience\.cc|pace\.h):", "budgets": r"/byte_budget\.h:|:fermata::(?:HeldBytes|ByteBudget)::"}
PARTS = (*CALLED, *OWN)


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

    def counts(self, *options):
        """Instructions of each function of each file."""
        said = subprocess.run(["callgrind_annotate", "--auto=no", "--threshold=100", *options, self.out], capture_output=True, text=True,
                              check=True).stdout
        return [(int(count.replace(",", "")), where) for count, where in re.findall(r"^ *([\d,]+) (?:\( *[\d.]+%\) )?(.*)$", said, re.M)]

    def end(self):
        """Instructions in all, and of each of PARTS."""
        self._process.terminate()
        self._process.wait(120)
        own, called = self.counts(), self.counts("--inclusive=yes")
        result = {"total": int(re.search(r"Collected : (\d+)", self.log.read_text())[1])}
        for part, names in CALLED.items():
            # The most of each: what was inlined into a function has lines of its own, which that of the function includes.
            result[part] = sum(max((count for count, where in called if re.search(name, where)), default=0) for name in names)
        for part, name in OWN.items():
            result[part] = sum(count for count, where in own if re.search(name, where))
        return result


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


def costs(binary, ask, runs):
    """The median of each, and the total's least and most."""
    each = [cost(binary, ask) for _ in range(runs)]
    totals = [run["total"] for run in each]
    return {part: round(statistics.median(run[part] for run in each), 1) for part in each[0]} | {
        "least_total": round(min(totals), 1), "most_total": round(max(totals), 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", action="append", help="NAME=PATH of a server; may be given again")
    parser.add_argument("--runs", type=int, default=5, help="of each, an odd number")
    parser.add_argument("--record", action="store_true", help="write bench/results/limits_cost.json")
    options = parser.parse_args()
    rows = []
    for binary in options.binary or [f"now={server.BINARY}"]:
        name, _, path = binary.partition("=")
        for ask in (ask_http, ask_grpc):
            row = {"server": name, "protocol": ask.__name__.removeprefix("ask_")} | costs(path, ask, options.runs)
            print(f"{name:8} {row['protocol']:5} {row['total']:9.0f} instructions a request, " +
                  ", ".join(f"{part} {row[part]:.0f} ({row[part] / row['total']:.2%})" for part in PARTS), flush=True)
            rows.append(row)
    if options.record:
        record.write("limits_cost", {"requests": [FEW, MANY], "runs": options.runs, "instructions_per_request": rows})


if __name__ == "__main__":
    main()
