#!/usr/bin/env python3
"""Clients on changing networks (Jellyfish's section 7), simulated and served.

    bench/streams.py plan [--problems 12]                       # section 7.6: how good and how quick plans are
    bench/streams.py simulated [--traces FOLDER] [--seeds 3]    # figures 11 to 15, 17, table 2
    bench/streams.py divided [--traces FOLDER] [--seeds 3]      # figure 16: fixed shares of the objective
    bench/streams.py dispatching [--traces FOLDER] [--seeds 3]  # any worker against the plan's
    bench/streams.py phases [--traces FOLDER] [--seeds 5]       # how many more clients they serve
    bench/streams.py served [--traces FOLDER] [--seconds 20]    # root: links between network namespaces
    bench/streams.py served --cells 2/5 --rows part-2.jsonl     # the second of five parts, any number at a time
    bench/streams.py merge part-*.jsonl                         # their record and its plot
    bench/streams.py prefetching [--traces FOLDER]              # the same, of workers that hold some of the DNNs

Sixteen DNNs of one detector on two workers; latency, accuracy and bytes by input size are made, in the
shape of the paper's figure 10. Served runs use emulated workers, which take these times by the clock, so
that the network, the server and its clients are real and the processor need not be. Traces are the
authors', which are not part of the project, or made ones like them. A part that was cut off goes on where
it was when it is started again. Records: bench/results/streams_*.json.
"""

import argparse
import itertools
import json
import pathlib
import random
import statistics
import subprocess
import sys

import record
import streams_served
import streams_traces
from streams_setting import DIVIDED, INFEASIBLE, METHODS, MIXED, RATES, SIDES, SLOS, VARIANTS, clients_of, judge, settings

# Of Student's t, by degrees of freedom: what 95 % lie within.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
ROOT = pathlib.Path(__file__).resolve().parents[1]


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


def divided(binary, trace, seeds):
    """Figure 16: both adaptations as one, each alone, and with a fixed share of the objective for each."""
    methods = {"fermata": {}, "DNN alone": METHODS["DNN alone"]} | DIVIDED
    wanted = list(itertools.product(methods, settings((2, 4, 8))))
    results = simulate(binary, [run_of(trace, clients_of(count, slo, rate), seed, **methods[method])
                                for method, (slo, rate, count) in wanted for seed in range(1, seeds + 1)])
    return [{"slo_ms": slo, "rate": rate, "clients": count, "method": method} | mean_of(results[i * seeds:(i + 1) * seeds])
            for i, (method, (slo, rate, count)) in enumerate(wanted)]


def dispatching(binary, traces, seeds):
    """Frames on any worker, on their client's by the plan, and there in batches of the plan's size at most."""
    keys = [key for key in settings((2, 4, 8)) if key != INFEASIBLE] + [("mixed", 0, count) for count in MIXED]
    rows = []
    for name, dispatch in itertools.product(traces, ("pool", "workers", "batches")):
        small = [run_of(traces[name], clients_of(count, slo, rate), seed, dispatch=dispatch)
                 for slo, rate, count in keys for seed in range(1, seeds + 1)]
        large = [run_of(traces[name], [(100, 15)] * 32, seed, 60, 8, dispatch=dispatch) for seed in range(1, seeds + 1)]
        for workers, runs in ((2, small), (8, large)):
            results = simulate(binary, runs)
            rows.append({"trace": name, "dispatch": dispatch, "workers": workers, "settings": len(runs) // seeds,
                         "worst_miss_rate": round(max(r["miss_rate"] for r in results), 5)} | mean_of(results))
    return rows


def phases(binary, traces, seeds, counts):
    """Misses and accuracy by the number of clients, without phases and with, a row a seed."""
    keys = list(itertools.product(traces, (75, 100), (False, True), counts, range(1, seeds + 1)))
    results = simulate(binary, [run_of(traces[name], clients_of(count, slo, 15), seed, 60, phases=phased)
                                for name, slo, phased, count, seed in keys])
    return [dict(zip(("trace", "slo_ms", "phases", "clients", "seed"), key)) | {k: round(r[k], 5) for k in ("miss_rate", "accuracy")}
            for key, r in zip(keys, results)]


def gain(mine, count):
    """How many times the clients phases serve, of one seed: `count` with them at 1 % misses at most, by where the
    line of accuracy without them (at 1 % at most) has the same; None where there is no such."""
    kept = [r for r in mine if r["miss_rate"] <= 0.01]
    plain = [(r["clients"], r["accuracy"]) for r in kept if not r["phases"]]
    for r in (r for r in kept if r["phases"] and r["clients"] == count):
        for (n0, a0), (n1, a1) in zip(plain, plain[1:]):
            if a1 <= r["accuracy"] <= a0:
                return count / (n0 + (n1 - n0) * (a0 - r["accuracy"]) / max(a0 - a1, 1e-9))
    return None


def gains(rows):
    """gain() over the seeds: mean, the half width of its 95 % interval, and of how many seeds there is one."""
    found = []
    for name, slo, count in sorted({(r["trace"], r["slo_ms"], r["clients"]) for r in rows}):
        of_seeds = [[r for r in rows if (r["trace"], r["slo_ms"], r["seed"]) == (name, slo, seed)]
                    for seed in sorted({r["seed"] for r in rows})]
        times = [times for mine in of_seeds if (times := gain(mine, count)) is not None]
        if len(times) < 2:
            continue
        half = STUDENT[len(times) - 1] * statistics.stdev(times) / len(times) ** 0.5
        found.append({"trace": name, "slo_ms": slo, "clients": count, "times": round(statistics.mean(times), 3),
                      "interval": round(half, 3), "seeds": len(times), "of": len(of_seeds)})
    return found


def simulated(args):
    traces = streams_traces.load(args.traces)
    rows = all_rows(args.binary, traces, args.seeds)
    large = [{"workers": 8, "clients": count, "slo_ms": slo, "trace": name}
             | mean_of(simulate(args.binary, [run_of(traces[name], [(slo, 15)] * count, seed, 60, 8)
                                              for seed in range(1, args.seeds + 1)]))
             for name in traces for slo in (100, 150) for count in (8, 16, 24, 32) if name == "lte" or (slo, count) == (100, 32)]
    document = {"traces": "the authors'" if args.traces else "made", "wrong": judge(rows), "rows": rows, "large": large,
                "latencies": latencies(args.binary, traces["synthetic"]), "chosen": chosen(args.binary, traces["synthetic"])}
    import drawings
    import plot
    plot.save("streams_simulated", drawings.DRAWN["streams_simulated"](document), document)
    more = drawings.DRAWN["streams_simulated_more"](document)
    more.savefig(plot.record.RESULTS / "streams_simulated_more.png")
    print(json.dumps({key: document[key] for key in ("wrong", "large")}, indent=1))


def latencies(binary, trace):
    """Figure 13: percentiles of answers' latencies, end to end."""
    keys = list(settings((2, 4, 8)))
    results = simulate(binary, [run_of(trace, clients_of(count, slo, rate), 1) for slo, rate, count in keys])
    return [{"slo_ms": slo, "rate": rate, "clients": count, "percentiles_ms": r["latency_percentiles_ms"]}
            for (slo, rate, count), r in zip(keys, results)]


def chosen(binary, trace):
    """Figure 11: what two clients of 25 frames a second and 100 ms send, on which link; once a second."""
    sent = simulate(binary, [run_of(trace, [(100, 25)] * 2, 1, keep_sent=True)])[0]["sent"]
    seconds = {(client, int(at)): [client, round(at, 2), SIDES[size], mbps, round(known, 2)] for client, at, size, mbps, known, _ in sent}
    return list(seconds.values())


def summary(rows):
    """Of the problems with known optima, all together; and of the largest."""
    small = [r for r in rows if r["beside"] == "exact"]
    told = {"problems": sum(r["problems"] for r in small)}
    for solver in ("best", "search", "annealing"):
        of = [r[solver] for r in small]
        told[solver] = {"ratio_mean": sum(a["ratio_mean"] * a["compared"] for a in of) / sum(a["compared"] for a in of),
                        "ratio_worst": min(a["ratio_worst"] for a in of),
                        "fewer_served": sum(a["fewer_served"] for a in of)}
    large = [r for r in rows if (r["workers"], r["clients"]) == (16, 160)]
    exact = [r["exact"] for r in small if (r["workers"], r["clients"]) == (4, 16)]
    return told | {
        "large": {"mean_ms": max(r["best"]["mean_ms"] for r in large), "most_ms": max(r["best"]["most_ms"] for r in large)},
        "beside_annealing": {what: sum(r["best"][what] for r in rows if r["beside"] != "exact")
                             for what in ("problems", "fewer_served", "more_served")},
        "exact_4_16_most_ms": max(a["most_ms"] for a in exact)}


def draw_plan(args):
    import drawings
    import plot
    done = subprocess.run([args.binary, str(args.problems), str(args.seed)], capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    document = {"seed": args.seed, "summary": summary(rows), "rows": rows}
    plot.save("streams_plan", drawings.DRAWN["streams_plan"](document), document)
    print(json.dumps(document["summary"], indent=1))


def write(args, name, document):
    record.write(name, {"traces": "the authors'" if args.traces else "made", "seeds": args.seeds} | document)
    print(json.dumps(document, indent=1))


def draw_divided(args):
    rows = divided(args.binary, streams_traces.load(args.traces)["synthetic"], args.seeds)
    write(args, "streams_divided", {"rows": rows})
    drawings.draw("streams_divided")


def draw_dispatching(args):
    write(args, "streams_dispatching", {"rows": dispatching(args.binary, streams_traces.load(args.traces), args.seeds)})


def draw_phases(args):
    traces = streams_traces.load(args.traces)
    rows = phases(args.binary, {name: traces[name] for name in args.only_traces.split(",")}, args.seeds, args.counts)
    write(args, "streams_phases", {"gains": gains(rows), "rows": rows})


def main():
    def numbers(text):
        return tuple(int(word) for word in text.split(","))

    def part(text):
        one, parts = map(int, text.split("/"))
        if not 1 <= one <= parts:
            raise ValueError
        return one, parts

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    in_virtual_time = {"simulated": simulated, "divided": draw_divided, "dispatching": draw_dispatching, "phases": draw_phases}
    for name in in_virtual_time:
        simulation = kinds.add_parser(name)
        simulation.add_argument("--binary", default=ROOT / "build" / "bench" / "bench_streams")
        simulation.add_argument("--seeds", type=int, default=5 if name == "phases" else 3, choices=range(1, 11))
        simulation.add_argument("--traces", type=pathlib.Path)
        if name == "phases":
            simulation.add_argument("--counts", type=numbers, default=tuple(range(4, 29, 2)), help="of clients")
            simulation.add_argument("--only-traces", default="synthetic,wifi,lte")
    planning = kinds.add_parser("plan")
    planning.add_argument("--binary", default=ROOT / "build" / "bench" / "bench_streams_plan")
    planning.add_argument("--problems", type=int, default=12, help="of each size and load")
    planning.add_argument("--seed", type=int, default=2026, help="of the problems; nothing was tried on those of the default")
    serving = kinds.add_parser("served")
    serving.add_argument("--seconds", type=float, default=20)
    serving.add_argument("--clients", type=numbers, default=(1, 2, 4, 8))
    serving.add_argument("--slos", type=numbers, default=SLOS)
    serving.add_argument("--rates", type=numbers, default=RATES)
    serving.add_argument("--only-traces", default="lte,wifi,synthetic")
    serving.add_argument("--methods", default=",".join(METHODS))
    serving.add_argument("--reduced", action="store_true", help="the settings that tell most, 105 instead of 360")
    serving.add_argument("--cells", type=part, default=(1, 1), metavar="I/N", help="every Nth cell from the Ith on")
    serving.add_argument("--rows", type=pathlib.Path, help="where they go, instead of the record; with other parts' it is merged into one")
    merging = kinds.add_parser("merge")
    merging.add_argument("files", type=pathlib.Path, nargs="+")
    ahead = kinds.add_parser("prefetching")
    ahead.add_argument("--seconds", type=float, default=30)
    ahead.add_argument("--rooms", type=numbers, default=(3, 5))
    ahead.add_argument("--only-traces", default="lte,wifi,synthetic")
    phased = kinds.add_parser("phased", help="served, without phases and with them")
    phased.add_argument("--seconds", type=float, default=20)
    phased.add_argument("--clients", type=numbers, default=(8, 12, 16))
    phased.add_argument("--only-traces", default="synthetic,lte")
    for kind in (serving, ahead, phased):
        kind.add_argument("--traces", type=pathlib.Path)
    args = parser.parse_args()
    if args.kind == "served" and args.cells != (1, 1) and not args.rows:
        parser.error("a part of the cells is no record: --rows says where it goes")
    (in_virtual_time | {"plan": draw_plan, "served": streams_served.served, "merge": streams_served.merge,
                        "prefetching": streams_served.prefetching, "phased": streams_served.phased})[args.kind](args)


if __name__ == "__main__":
    main()
