"""Programs that are no Python: curl, wrk, h2load, Node's fetch, Java's HttpClient and, with --large, Triton's
perf_analyzer. One that is not installed is left out."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from checks import GRPC, HTTP, METRICS, Checks

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
INFER = f"http://{HTTP}/v2/models/identity-fp32/infer"
BODY = json.dumps({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]})
LIMIT_S = 300


def run(*command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=LIMIT_S)
    return done.stdout + done.stderr


def version(*command):
    return run(*command).strip().splitlines()[0][:80]


def curl():
    checks = Checks("curl", version("curl", "--version"))

    def says(*arguments, text=None):
        return run("curl", "-s", "-S", "-i", "--max-time", "60", *arguments, text=text)

    for name, arguments, words in (
            ("GET", [f"http://{HTTP}/v2"], "200 OK"),
            ("HEAD", ["-I", f"http://{HTTP}/v2"], "200 OK"),
            ("HTTP/1.0", ["-0", f"http://{HTTP}/v2"], "200 OK"),
            ("several requests on one connection", [f"http://{HTTP}/v2", f"http://{HTTP}/v2/models/pair"], '"pair"'),
            ("infer", ["-d", BODY, INFER], '"outputs"'),
            ("infer, Expect: 100-continue", ["-H", "Expect: 100-continue", "-d", BODY, INFER], "100 Continue"),
            ("infer, gzip asked for", ["--compressed", "-d", BODY, INFER], '"outputs"'),
            ("a method that is not allowed", ["-X", "DELETE", f"http://{HTTP}/v2"], "405"),
            ("OPTIONS", ["-X", "OPTIONS", f"http://{HTTP}/v2"], "HTTP/1.1"),
            ("an unknown path", [f"http://{HTTP}/nothing"], "404"),
            ("an absolute target", ["--request-target", f"http://{HTTP}/v2", f"http://{HTTP}/"], "200 OK"),
            ("an upgrade to HTTP/2 is declined", ["--http2", f"http://{HTTP}/v2"], "200 OK"),
            ("no JSON", ["-d", "{", INFER], "400"),
            ("metrics", [f"http://{METRICS}/metrics"], "fermata_")):
        with checks.check(name):
            said = says(*arguments)
            assert words in said, said[-200:]
    with checks.check("infer in chunks from standard input"):
        said = says("-T", "-", "-X", "POST", INFER, text=BODY)
        assert '"outputs"' in said, said[-200:]
    with checks.check("infer, gzip sent"):
        with tempfile.TemporaryDirectory() as folder:
            packed = pathlib.Path(folder) / "body"
            packed.write_text(BODY)
            subprocess.run(["gzip", packed], check=True)
            said = says("-H", "Content-Encoding: gzip", "--data-binary", f"@{packed}.gz", INFER)
            assert '"outputs"' in said, said[-200:]
    checks.print()


def wrk():
    checks = Checks("wrk", version("wrk", "--version"))
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "infer.lua"
        script.write_text(f"wrk.method = 'POST'\nwrk.body = '{BODY}'\n")
        for name, arguments in (("GET", [f"http://{HTTP}/v2/health/ready"]), ("infer", ["-s", script, INFER])):
            with checks.check(f"{name}, 16 connections"):
                said = run("wrk", "-t", "1", "-c", "16", "-d", "2s", *arguments)
                assert re.search(r"\b[1-9]\d* requests in", said), said
                assert "Non-2xx" not in said and "Socket errors" not in said, said
    checks.print()


def h2load():
    checks = Checks("h2load", version("h2load", "--version"))
    with tempfile.TemporaryDirectory() as folder:
        message = pathlib.Path(folder) / "message"
        message.write_bytes(b"\0\0\0\0\0")
        call = f"http://{GRPC}/inference.GRPCInferenceService/ServerLive"
        for name, target, more in (
                ("HTTP/1.1", f"http://{HTTP}/v2", ["--h1"]),
                ("gRPC over HTTP/2, 10 streams of each of 4 connections", call,
                 ["-m", "10", "-d", message, "-H", "content-type: application/grpc", "-H", "te: trailers"])):
            with checks.check(name):
                said = run("h2load", "-n", "400", "-c", "4", *more, target)
                assert "400 succeeded, 0 failed" in said, said[-400:]
    checks.print()


def node():
    checks = Checks("Node fetch and http", version("node", "--version"))
    said = run("node", HERE / "fetch.mjs", HTTP)
    for name in ("keep-alive", "fifty at a time", "binary tensors", "a WebSocket"):
        with checks.check(name):
            assert f"passed: {name}\n" in said, said[-300:]
    checks.print()


def java():
    checks = Checks("Java HttpClient", version("java", "--version"))
    said = run("java", HERE / "Ask.java", HTTP)
    for name in ("GET that offers HTTP/2", "infer", "twenty at a time"):
        with checks.check(name):
            assert f"passed: {name}\n" in said, said[-300:]
    checks.print()


def perf_analyzer():
    checks = Checks("perf_analyzer", "of tritonclient 2.50.0")
    protocols = {"http": ["-u", HTTP], "grpc": ["-u", GRPC, "-i", "grpc"]}
    ways = {"": [], "asynchronous": ["--async"], "shared memory": ["--shared-memory", "system"],
            "several at a time": ["--concurrency-range", "1:3"], "a rate": ["--request-rate-range", "50"],
            "a batch of 8": ["-b", "8"]}
    runs = [(p, way, more) for p in protocols for way, more in ways.items()]
    runs.append(("grpc", "streaming", ["--streaming", "--async"]))
    for protocol, way, more in runs:
        with checks.check(f"{protocol} {way}".strip()):
            said = run(ROOT / "scripts" / "perf_analyzer.sh", "-m", "dense", *protocols[protocol], *more,
                       "--measurement-mode", "count_windows", "--measurement-request-count", "20", "-s", "1000", "-r", "10")
            assert re.search(r"throughput: [1-9]", said), said[-300:]
    checks.print()


for program, client in (("curl", curl), ("wrk", wrk), ("h2load", h2load), ("node", node), ("java", java)):
    if shutil.which(program):
        client()
    else:
        print(f"{program} is not installed", file=sys.stderr)
if "--large" in sys.argv:
    perf_analyzer()
