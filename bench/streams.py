#!/usr/bin/env python3
"""Clients on changing networks (Jellyfish's section 7), simulated and served.

    bench/streams.py simulated [--traces FOLDER] [--seeds 3]    # figures 12, 15, 17, table 2, phases
    bench/streams.py served [--traces FOLDER] [--seconds 20]    # root: links between network namespaces
    bench/streams.py prefetching [--traces FOLDER]              # the same, of workers that hold some of the DNNs

Sixteen DNNs of one detector on two workers; latency, accuracy and bytes by input size are made, in the
shape of the paper's figure 10. Served runs use emulated workers, which take these times by the clock, so
that the network, the server and its clients are real and the processor need not be. Traces are the
authors', which are not part of the project, or made ones like them. Records: bench/results/streams_*.json.
"""

import argparse
import itertools
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys

import record
import streams_traces

ROOT = pathlib.Path(__file__).resolve().parents[1]
SIDES = range(128, 640, 32)
SLOS, RATES = (75, 100, 150), (15, 25)
LOW, MIDDLE, HIGH = 0, 7, 15
MOST_BATCH = 12
METHODS = {"fermata": {}, "low": {"mode": "fixed", "variant": LOW, "scheduler": "edf"},
           "middle": {"mode": "fixed", "variant": MIDDLE, "scheduler": "edf"},
           "high": {"mode": "fixed", "variant": HIGH, "scheduler": "edf"},
           "DNN alone": {"mode": "dnn-alone", "variant": MIDDLE}}
# Table 2's clients: objective in ms and frames a second.
MIXED = {4: [(75, 15), (100, 15), (150, 25), (75, 25)],
         8: [(75, 15), (100, 15), (150, 15), (75, 15), (100, 25), (150, 25), (75, 25), (100, 25)]}
MEMORY_MB, LOAD_MS = 10, 175  # of a DNN, where workers do not hold all: the middle of what the paper measured
HOPELESS = (75, 25, 8)  # more than two workers of the smallest DNN serve in time


def each_ms(side):
    return 2.5 + 8.5 * (side / 416) ** 2.2


def variant(side):
    return {"name": f"detect-{side}", "input_size": side,
            "accuracy": round(0.44 * (1 - 1.5 * math.exp(-side / 130)), 4),
            "request_kb": round(side * side * 3 / (4.5 + side / 150) / 1000, 3),
            "latency_ms": {"table": {str(b): round(20 + b * each_ms(side), 3)
                                     for b in range(1, MOST_BATCH + 1)}}}


VARIANTS = [variant(side) for side in SIDES]
ACCURACY = {v["input_size"]: v["accuracy"] for v in VARIANTS}


def clients_of(count, slo, rate):
    return MIXED[count] if slo == "mixed" else [(slo, rate)] * count


def settings(counts=(1, 2, 4, 8)):
    yield from itertools.product(SLOS, RATES, counts)


# -- simulated -------------------------------------------------------------------------------------

def run_of(trace, clients, seed, duration_s=120, workers=2, **more):
    mbps, hold_s = trace
    draw = random.Random(f"{seed} {len(clients)}")
    at_s, made = 0.0, []
    for slo, rate in clients:
        made.append({"rate_rps": rate, "slo_ms": slo, "start_s": draw.uniform(0, len(mbps) * hold_s),
                     "first_frame_s": at_s})
        at_s += draw.uniform(0.1, 1)
    return {"traces_mbps": [mbps], "hold_s": hold_s, "variants": VARIANTS, "clients": made,
            "workers": workers, "duration_s": duration_s, "seed": seed} | more


def simulate(binary, runs):
    done = subprocess.run([binary], input="\n".join(map(json.dumps, runs)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"streams: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def mean_of(results):
    keys = ("miss_rate", "accuracy", "utilization", "estimate_error", "mean_batch")
    offered = sum(r["offered"] for r in results)
    shares = {key: sum(r[key] for r in results) / offered for key in ("late", "rejected", "dropped", "mismatches")}
    switches = sum(r["switches"] for r in results)
    hits = sum(r["near_switches"] for r in results) / switches if switches else 1
    return {"prefetch_hits": round(hits, 4)} | {key: round(statistics.mean(r[key] for r in results), 5) for key in keys} | \
        {key: round(share, 5) for key, share in shares.items()}


def all_rows(binary, traces, seeds):
    wanted = [(name, slo, rate, count, method) for name in traces for slo, rate, count in settings()
              for method in METHODS]
    wanted += [(name, "mixed", 0, count, method) for name in traces for count in MIXED for method in METHODS]
    runs = [run_of(traces[name], clients_of(count, slo, rate), seed, **METHODS[method])
            for name, slo, rate, count, method in wanted for seed in range(1, seeds + 1)]
    results = simulate(binary, runs)
    return [{"trace": name, "slo_ms": slo, "rate": rate, "clients": count, "method": method}
            | mean_of(results[i * seeds:(i + 1) * seeds])
            for i, (name, slo, rate, count, method) in enumerate(wanted)]


def judge(rows):
    """What is asked of the rows: the settings where it does not hold."""
    by = {(r["trace"], r["slo_ms"], r["rate"], r["clients"], r["method"]): r for r in rows}
    wrong = {"misses": [], "than middle": [], "than low": []}
    for r in (r for r in rows if r["method"] == "fermata"):
        key = (r["trace"], r["slo_ms"], r["rate"], r["clients"])
        most = 0.015 if r["trace"] == "lte" else 0.01
        if key[1:] != HOPELESS and r["slo_ms"] != "mixed" and r["miss_rate"] > most:
            wrong["misses"].append([*key, r["miss_rate"]])
        middle, low = by.get((*key, "middle")), by.get((*key, "low"))
        if middle and middle["miss_rate"] > 0.01 and r["miss_rate"] >= middle["miss_rate"]:
            wrong["than middle"].append([*key, r["miss_rate"], middle["miss_rate"]])
        if low and r["accuracy"] <= low["accuracy"]:
            wrong["than low"].append([*key, r["accuracy"], low["accuracy"]])
    return wrong


def phases(binary, traces, seeds):
    """Misses and accuracy by the number of clients, without phases and with."""
    rows = []
    for name, slo in itertools.product(("synthetic", "wifi", "lte"), (75, 100)):
        for phased, count in itertools.product((False, True), range(4, 29, 2)):
            runs = [run_of(traces[name], clients_of(count, slo, 15), seed, 60, phases=phased)
                    for seed in range(1, seeds + 1)]
            rows.append({"trace": name, "slo_ms": slo, "clients": count, "phases": phased}
                        | mean_of(simulate(binary, runs)))
    return rows


def gains(rows):
    """How many times the clients phases serve: for each count with them at 1 % misses at most, by where
    the line of accuracy without them (at 1 % at most) has the same."""
    found = []
    for name, slo in sorted({(r["trace"], r["slo_ms"]) for r in rows}):
        mine = [r for r in rows if (r["trace"], r["slo_ms"]) == (name, slo) and r["miss_rate"] <= 0.01]
        plain = [(r["clients"], r["accuracy"]) for r in mine if not r["phases"]]
        for r in (r for r in mine if r["phases"]):
            for (n0, a0), (n1, a1) in zip(plain, plain[1:]):
                if a1 <= r["accuracy"] <= a0:
                    equal = n0 + (n1 - n0) * (a0 - r["accuracy"]) / max(a0 - a1, 1e-9)
                    found.append({"trace": name, "slo_ms": slo, "clients": r["clients"],
                                  "times": round(r["clients"] / equal, 3)})
                    break
    return found


def draw_rows(rows, name, document):
    import plot
    figure, axes = plot.axes("clients", "", rows=2, columns=3)
    for axis, slo in zip(figure.axes[:3], SLOS):
        below = figure.axes[figure.axes.index(axis) + 3]
        for method in dict.fromkeys(r["method"] for r in rows):
            mine = [r for r in rows if r["method"] == method and r["slo_ms"] == slo and r["trace"] == "lte" and r["rate"] == 15]
            axis.plot([r["clients"] for r in mine], [100 * r["miss_rate"] for r in mine], marker="o", label=method)
            below.plot([r["clients"] for r in mine], [r["accuracy"] for r in mine], marker="o")
        axis.set_title(f"LTE, 15 frames/s, {slo} ms")
        axis.set_ylabel("misses, %")
        axis.set_yscale("symlog", linthresh=1)
        below.set_ylabel("accuracy of answers on time")
    figure.axes[0].legend()
    plot.save(name, figure, document)


def simulated(args):
    traces = streams_traces.load(args.traces)
    rows = all_rows(args.binary, traces, args.seeds)
    large = [{"workers": 8, "clients": 32, "trace": name}
             | mean_of(simulate(args.binary, [run_of(traces[name], [(100, 15)] * 32, seed, 60, 8)
                                              for seed in range(1, args.seeds + 1)])) for name in traces]
    phased = phases(args.binary, traces, args.seeds)
    document = {"traces": "the authors'" if args.traces else "made", "wrong": judge(rows), "rows": rows,
                "large": large, "phase_gains": gains(phased), "phases": phased}
    draw_rows(rows, "streams_simulated", document)
    print(json.dumps({key: document[key] for key in ("wrong", "large", "phase_gains")}, indent=1))


# -- served ----------------------------------------------------------------------------------------

def repository(folder):
    for v in VARIANTS:
        model = folder / v["name"]
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(
            f"max_batch_size: {MOST_BATCH}\n"
            'input { name: "frame" data_type: TYPE_STRING dims: 1 }\n'
            'output { name: "boxes" data_type: TYPE_FP32 dims: 4 }\n')
        one, most = (v["latency_ms"]["table"][str(b)] for b in (1, MOST_BATCH))
        alpha = (most - one) / (MOST_BATCH - 1)
        batches = {b: {"runs": 1} | dict.fromkeys(("p50_ms", "p90_ms", "p99_ms", "mean_ms"), ms)
                   for b, ms in v["latency_ms"]["table"].items()}
        (model / "profile.json").write_text(json.dumps(
            {"format": 1, "version": 1, "model": v["name"], "model_version": "1", "batches": batches,
             "load_ms": LOAD_MS, "memory_mb": MEMORY_MB, "static_mb": MEMORY_MB,
             "linear_ms": {"alpha": alpha, "beta": one - alpha, "error": 0},
             "quadratic_ms": {"a": 0, "b": alpha, "c": one - alpha, "error": 0}}))
    return folder


def config_of(models, method, phased, room=None):
    kb = VARIANTS[MIDDLE]["request_kb"] if method == "DNN alone" else None
    variants = [{"service": v["name"], "input_size": v["input_size"], "accuracy": v["accuracy"],
                 "request_kb": round(1.1 * (kb or v["request_kb"]), 3)} for v in VARIANTS]
    workers = {"count": 2, "executor": "emulated"}
    if room:
        workers |= {"memory_mb": room * MEMORY_MB + 1, "residency": "on_demand"}
    return {"models": str(models), "workers": workers,
            "scheduler": METHODS[method].get("scheduler", "fermata"),
            "services": {"cameras": {"kind": "stream", "slo_ms": 100, "variants": variants, "phases": phased}}}


def command_of(args, links, name, address, slo, rate, method, seed):
    sizes = {v["input_size"]: round(v["request_kb"] * 1000) for v in VARIANTS}
    command = [*links.inside(name), sys.executable, ROOT / "bench" / "streams_client.py", address,
               "--slo-ms", slo, "--rate", rate, "--seconds", args.seconds, "--seed", seed, "--bytes", json.dumps(sizes)]
    if METHODS[method].get("mode") == "fixed":
        side = SIDES[METHODS[method]["variant"]]
        command += ["--service", f"detect-{side}", "--most", side]
    if method == "DNN alone":
        command += ["--only", SIDES[MIDDLE]]
    return [str(word) for word in command]


def median_error(reports, links):
    """Of the clients' estimates, against what the link had at that moment."""
    errors = []
    for name, report in reports.items():
        log, at = links.log[name], 0
        for now, mbps in report["estimates"]:
            while at + 1 < len(log) and log[at + 1][0] <= now:
                at += 1
            errors.append(abs(mbps / log[at][1] - 1))
    return round(statistics.median(errors), 4) if errors else None


def serve_once(args, traces, models, key, room=None):
    from server import Server
    from streams_links import Links
    name, slo, rate, count, method, phased = key
    mbps, hold_s = traces[name]
    draw = random.Random(f"{count} {slo} {rate}")
    shapes = {f"c{i}": (mbps, hold_s, draw.uniform(0, len(mbps) * hold_s)) for i in range(count)}
    kinds = clients_of(count, slo, rate)
    with Links(shapes) as links, Server(config_of(models, method, phased, room), host=links.server) as server:
        links.start()
        clients = {c: subprocess.Popen(command_of(args, links, c, f"{links.server}:{server.grpc}", *kinds[i], method, i),
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                   for i, c in enumerate(shapes)}
        ended = {c: client.communicate() for c, client in clients.items()}
        metrics = server.metrics()
    for c, (out, err) in ended.items():
        if clients[c].returncode != 0:
            sys.exit(f"streams: a client failed: {err.strip()[-500:]}")
    reports = {c: json.loads(out) for c, (out, _) in ended.items()}
    total = {k: sum(r[k] for r in reports.values()) for k in ("offered", "on_time", "late", "rejected", "dropped")}
    sides = [s for r in reports.values() for s in r["sides"]]
    fixed = METHODS[method].get("mode") == "fixed"
    accuracy = statistics.mean(ACCURACY[SIDES[METHODS[method]["variant"]] if fixed else s] for s in sides) if sides else 0
    latencies = sorted(ms for r in reports.values() for ms in r["latency_ms"])
    return {"trace": name, "slo_ms": slo, "rate": rate, "clients": count, "method": method, "phases": phased} | total | {
        "miss_rate": round(1 - total["on_time"] / max(total["offered"], 1), 5), "accuracy": round(accuracy, 4),
        "median_ms": latencies[len(latencies) // 2] if latencies else None,
        "p99_ms": latencies[int(len(latencies) * 0.99)] if latencies else None,
        "estimate_error": median_error(reports, links),
        "client_late_ms": max(r["late_ms"] for r in reports.values()),
        "mismatches": metrics.get('fermata_stream_mismatches_total{model="cameras"}')} | (
        {"room": room} | {what: metrics.get(f'fermata_stream_{what}_total{{model="cameras"}}')
                          for what in ("switches", "prefetched", "stale")} if room else {})


def matters(slo, rate, count, method):
    """The settings of a shorter set: every objective at the lower rate, the middle one at the higher rate with several
    clients; `high` and `DNN alone` at one of them."""
    telling = count in (1, 4, 8) and (rate == 15 or (slo == 100 and count > 1))
    return telling and (method in ("fermata", "low", "middle") or (slo, rate, count) == (100, 15, 4))


def served(args):
    import tempfile
    traces = streams_traces.load(args.traces)
    keys = [(name, slo, rate, count, method, False)
            for name in args.only_traces.split(",") for slo, rate, count in settings(args.clients)
            if slo in args.slos and rate in args.rates for method in args.methods.split(",")
            if not args.reduced or matters(slo, rate, count, method)]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        models = repository(pathlib.Path(folder))
        for key in keys:
            rows.append(serve_once(args, traces, models, key))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    document = {"traces": "the authors'" if args.traces else "made", "seconds": args.seconds,
                "wrong": judge(rows), "rows": rows}
    draw_rows(rows, "streams_served", document)
    print(json.dumps(document["wrong"], indent=1))


def prefetching(args):
    """How often a switch finds its DNN there, of workers that hold some of the sixteen."""
    import tempfile
    import record
    traces = streams_traces.load(args.traces)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        models = repository(pathlib.Path(folder))
        for name, room in itertools.product(args.only_traces.split(","), args.rooms):
            rows.append(serve_once(args, traces, models, (name, 100, 15, 4, "fermata", False), room))
            rows[-1]["hits"] = round(rows[-1]["prefetched"] / max(rows[-1]["switches"], 1), 4)
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    record.write("streams_prefetching", {"traces": "the authors'" if args.traces else "made", "seconds": args.seconds, "rows": rows})


def main():
    def numbers(text):
        return tuple(int(word) for word in text.split(","))

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    simulation = kinds.add_parser("simulated")
    simulation.add_argument("--binary", default=ROOT / "build" / "bench" / "bench_streams")
    simulation.add_argument("--seeds", type=int, default=3)
    serving = kinds.add_parser("served")
    serving.add_argument("--seconds", type=float, default=20)
    serving.add_argument("--clients", type=numbers, default=(1, 2, 4, 8))
    serving.add_argument("--slos", type=numbers, default=SLOS)
    serving.add_argument("--rates", type=numbers, default=RATES)
    serving.add_argument("--only-traces", default="lte,wifi,synthetic")
    serving.add_argument("--methods", default=",".join(METHODS))
    serving.add_argument("--reduced", action="store_true", help="the settings that tell most, 105 instead of 360")
    ahead = kinds.add_parser("prefetching")
    ahead.add_argument("--seconds", type=float, default=30)
    ahead.add_argument("--rooms", type=numbers, default=(3, 5))
    ahead.add_argument("--only-traces", default="lte,wifi,synthetic")
    for kind in (simulation, serving, ahead):
        kind.add_argument("--traces", type=pathlib.Path)
    args = parser.parse_args()
    {"simulated": simulated, "served": served, "prefetching": prefetching}[args.kind](args)


if __name__ == "__main__":
    main()
