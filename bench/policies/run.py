#!/usr/bin/env python3
"""Measures the goodput of scheduling policies by `fermata goodput`.

    run.py table      five workloads, 60 s, median of 3 seeds
    run.py suite      the cases of suite.yaml, 20 s, one seed; the --confirm worst of
                      them again with 60 s and 3 seeds, with the policies near the best
    run.py pools      random small pools (pools.py), --count of them from --first on, of which the
                      rarest model has enough requests for a share of 1 % to be measured; the medians
                      of --seeds; of other pools or more seeds no record is kept without a --name
    run.py tuned      --count pools of very different models: the default that chooses its rules while it runs,
                      the same with its own rules, each other row that it chooses from, and five simple policies;
                      --kept FILE goes on where an earlier run of the same binary stopped
    run.py changing   --count loads that change their kind: what is lost from 20 s after that on
    run.py overload   ResNet50 on 8 workers from half its peak to three times, and
                      9000/s for 900 s
    run.py ablate     each rule of the default off by itself (ablate.py): --sets of five, suite, pools, drawn,
                      best_effort and closed; --kept FILE goes on where an earlier run stopped
    run.py claims     claims.py: what the default must do besides goodput
    run.py figures    figures.py: Symphony's figures 6 to 11 and 13

Each prints a table and writes a plot and its numbers to bench/results. Of a table and a
suite, policies and cases that are not asked for keep the figures that are there."""

import argparse
import concurrent.futures
import copy
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import ablate  # noqa: E402
import claims  # noqa: E402
import drawings  # noqa: E402
import figures  # noqa: E402
import plot  # noqa: E402
import pools  # noqa: E402
import record  # noqa: E402

DEFAULT = "fermata"
POLICIES = [DEFAULT, "deferred", "deferred-beta-lambda", "deferred-prefix", "eager",
            "clockwork", "edf", "nexus"]
ROWS = {
    "resnet50": 5297,
    "inception_resnet_v2": 939,
    "zoo_1080ti": 7404,
    "zoo_a100": 17528,
    "densenet121": 13885,
}


def load(name):
    return yaml.safe_load((HERE / name).read_text())


def fermata(binary, command, document, *options):
    """With the policy's own rules, unless --tune says otherwise."""
    if "--tune" not in options:
        options = (*options, "--tune", "off")
    done = subprocess.run([binary, command, "-", *options], input=json.dumps(document), text=True,
                          capture_output=True)
    if done.returncode not in (0, 3):  # 3: no rate is good
        sys.exit(f"{command}: {done.stderr}")
    return json.loads(done.stdout)


def goodput(binary, document, policy, seed, duration):
    document = dict(document, scheduler=policy, seed=seed, duration_s=duration)
    return fermata(binary, "goodput", document)["goodput_rps"]


def case_document(case, suite):
    if "zoo" in case:
        document = load(case["zoo"])
        models = document["models"]
    else:
        document = {"rate_rps": 1000.0}
        models = [{"name": f"m{i}", "latency_ms": suite["profiles_ms"][case["profile"]],
                   "slo_ms": case["slo_ms"]} for i in range(case["models"])]
    for rank, model in enumerate(models, 1):
        model["share"] = rank ** -case["popularity"]
        model["arrival"] = {"process": "gamma", "shape": case["shape"]}
    return dict(document, models=models, workers={"count": case["workers"]})


def each(args, jobs, measure):
    """What `measure` gives for every job, in their order; several run at a time."""
    jobs, found = list(jobs), []
    with concurrent.futures.ThreadPoolExecutor(args.together) as threads:
        for value in threads.map(measure, jobs):
            found.append(value)
            sys.stderr.write(f"\r{len(found)}/{len(jobs)}")
            sys.stderr.flush()
    sys.stderr.write("\n")
    return found


def in_all(measured):
    return [p for p in POLICIES if all(p in rates for rates in measured)]


def left_by(before, args):
    """What drew the policies that are not measured now, for the record."""
    return None if set(args.policies) >= set(POLICIES) else record.left(before)


def table(args):
    rows, before = {}, record.read("policies_table")
    for name, must in ROWS.items():
        rows[name] = {**before.get(name, {}), "must": must}
    jobs = [(name, policy) for name in ROWS for policy in args.policies]

    def measure(job):
        document = load(f"{job[0]}.yaml")
        return statistics.median(goodput(args.binary, document, job[1], seed, 60) for seed in (1, 2, 3))

    for (name, policy), rate in zip(jobs, each(args, jobs, measure)):
        rows[name][policy] = rate
    policies = in_all(rows.values())
    print(plot.table(["workload", "must", *policies],
                     [[name, row["must"], *(row[p] for p in policies)]
                      for name, row in rows.items()]))
    plot.save("policies_table", drawings.policies_table(rows), rows, before=left_by(before, args))


def measure_case(args, suite, case, policy, confirm):
    document = case_document(copy.deepcopy(case), suite)
    seeds, duration = ((1, 2, 3), 60) if confirm else ((1,), 20)
    return statistics.median(goodput(args.binary, document, policy, seed, duration) for seed in seeds)


def best_other(measured):
    return max(rate for policy, rate in measured.items() if policy != DEFAULT)


def ratio(measured):
    best = best_other(measured)
    return measured[DEFAULT] / best if best > 0 else 1.0


def near_the_best(measured):
    """Who might be the best other policy when measured for longer, and the default."""
    return [p for p, rate in measured.items()
            if p == DEFAULT or rate >= 0.97 * best_other(measured)]


def summary(results, policies):
    ratios = {name: ratio(measured) for name, measured in results.items()}
    means = {}
    for other in (p for p in policies if p != DEFAULT):
        logs = [math.log(m[DEFAULT] / m[other]) for m in results.values()
                if m[other] > 0 and m[DEFAULT] > 0]
        means[other] = math.exp(statistics.mean(logs))
    return {"worst_ratio_to_the_best_other": min(ratios.values()),
            "cases_below_0.98": sum(r < 0.98 for r in ratios.values()),
            "geometric_mean_to_the_best_other":
                math.exp(statistics.mean(map(math.log, ratios.values()))),
            "geometric_mean_over": means}


def suite(args):
    description, before = load("suite.yaml"), record.read("policies_suite")
    cases = {case["name"]: case for case in description["cases"]}
    results = {name: dict(m) for name, m in before.get("cases", {}).items() if name in cases}
    confirmed = {name for name in before.get("confirmed", []) if name in results}

    def measure(names, policies_of):
        jobs = [(name, policy) for name in names for policy in policies_of(name)]
        rates = each(args, jobs, lambda job: measure_case(args, description, cases[job[0]], job[1], job[0] in confirmed))
        for (name, policy), rate in zip(jobs, rates):
            results.setdefault(name, {})[policy] = rate

    measure([name for name in cases if args.only in name], lambda _: args.policies)
    again = [name for name in sorted(results, key=lambda n: ratio(results[n]))[:args.confirm] if name not in confirmed]
    confirmed.update(again)
    measure(again, lambda name: near_the_best(results[name]))
    policies = in_all(results.values())
    print(plot.table(["case", *policies, "ratio to the best other"],
                     [[name, *(m[p] for p in policies), ratio(m)]
                      for name, m in sorted(results.items(), key=lambda item: ratio(item[1]))]))
    totals = summary(results, policies)
    print(json.dumps(totals, indent=1))
    plot.save("policies_suite", drawings.DRAWN["policies_suite"]({"pools": results}),
              {"summary": totals, "confirmed": sorted(confirmed), "cases": results},
              before=left_by(before, args))


def has_enough_requests(document, measured):
    rarest = min(m["share"] for m in document["models"])
    return best_other(measured) * rarest * document["duration_s"] >= pools.LEAST_REQUESTS


def small_pools(args):
    name = args.name or ("policies_pools" if args.first == 0 and args.seeds == 1 else None)
    before = record.read(name) if name else {}
    known = before.get("pools", {}) | before.get("left_out", {})
    results, left_out, number = {}, {}, args.first

    def measure(job):
        document = pools.pool(job[0])
        return statistics.median(goodput(args.binary, document, job[1], seed, document["duration_s"])
                                 for seed in range(1, args.seeds + 1))

    while (missing := args.count - len(results)) > 0:
        jobs = [(n, policy) for n in range(number, number + missing) for policy in args.policies]
        number += missing
        measured = {}
        for (n, policy), rate in zip(jobs, each(args, jobs, measure)):
            measured.setdefault(n, dict(known.get(str(n), {})))[policy] = rate
        for n, rates in measured.items():
            (results if has_enough_requests(pools.pool(n), rates) else left_out)[str(n)] = rates
    policies = in_all(results.values())
    print(plot.table(["pool", *policies, "ratio to the best other"],
                     [[n, *(m[p] for p in policies), ratio(m)]
                      for n, m in sorted(results.items(), key=lambda item: ratio(item[1]))]))
    totals = summary(results, policies) | {
        "pools_below_0.95": sum(ratio(m) < 0.95 for m in results.values()),
        "pools_below_0.88": sum(ratio(m) < 0.88 for m in results.values()),
        "left_out": len(left_out)}
    print(json.dumps(totals, indent=1))
    if name:
        plot.save(name, drawings.DRAWN["policies_suite"]({"pools": results}), {"seeds": args.seeds, "summary": totals, "pools": results,
                                              "left_out": left_out}, before=left_by(before, args))


SIMPLE = ["deferred", "deferred-prefix", "clockwork", "eager", "edf"]
OWN = ["fermata-early", "fermata-prefix"]  # beside the default and these, what the tuner chooses from
AT_ONCE = 5  # pools, after which a run that stops may go on


def tuned(args):
    """Of pools whose rarest model has enough requests where the best simple policy ends."""
    name = args.name or "policies_tuned"
    results, left_out, number, kept = {}, 0, args.first, ablate.Kept(args.kept)

    def measure(job):
        document = dict(pools.widely_unlike(job[0]), seed=1, scheduler=DEFAULT if job[1] in ("tuned", "fixed") else job[1])
        tune = "off" if job[1] == "fixed" else "on"
        return kept.get(document, document["scheduler"], ["--tune", tune], lambda: fermata(
            args.binary, "goodput", document, "--tune", tune)["goodput_rps"])

    while (missing := min(AT_ONCE, args.count - len(results))) > 0:
        measured = {n: {} for n in range(number, number + missing)}
        number += missing

        def measure_all(policies):
            jobs = [(n, policy) for n in measured for policy in policies]
            for (n, policy), rate in zip(jobs, each(args, jobs, measure)):
                measured[n][policy] = rate
            kept.save()

        measure_all(SIMPLE)
        for n in list(measured):
            document = pools.widely_unlike(n)
            rarest = min(m["share"] for m in document["models"]) * document["duration_s"]
            if max(measured[n].values()) * rarest < pools.LEAST_REQUESTS:
                del measured[n]
                left_out += 1
        measure_all([*OWN, "fixed", "tuned"])
        for n, rates in measured.items():
            results[str(n)] = rates | {"best row": max(rates[p] for p in [*SIMPLE, *OWN, "fixed"])}
    totals = {"pools": len(results), "left_out": left_out}
    for which in ("tuned", "fixed", "best row"):
        found = sorted(m[which] / max(m[p] for p in SIMPLE) for m in results.values())
        totals[which] = {"worst": found[0], "below_0.95": sum(r < 0.95 for r in found), "below_0.90": sum(r < 0.9 for r in found),
                         "geometric_mean": math.exp(statistics.mean(map(math.log, found)))}
    print(json.dumps(totals, indent=1))
    document = {"summary": totals, "pools": results}
    plot.save(name, drawings.DRAWN["policies_tuned"](document), document)


def changing(args):
    """Loads that change their kind: what each fixed row loses from 20 s after that on, and the default that chooses."""
    rows = [*SIMPLE, DEFAULT, *OWN]

    def measure(job):
        document, _ = pools.changing(job[0])
        tuned = job[1] == "tuned"
        document = dict(document, seed=1, scheduler=DEFAULT if tuned else job[1])
        answer = fermata(args.binary, "simulate", document, "--tune", "on" if tuned else "off")
        return {"worst": max(m["bad_rate"] for m in answer["models"]), "moves": [m["at_s"] for m in answer.get("tuning", {}).get("moves", [])]}

    jobs = [(n, row) for n in range(args.first, args.first + args.count) for row in [*rows, "tuned"]]
    documents = {}
    for (n, row), found in zip(jobs, each(args, jobs, measure)):
        own = documents.setdefault(n, {"change": pools.CHANGES[n % len(pools.CHANGES)], "rows": {}})
        if row == "tuned":
            own |= {"tuned": found["worst"], "moves": found["moves"]}
        else:
            own["rows"][row] = found["worst"]
    for own in documents.values():
        own["best"] = min(own["rows"].values())
    gaps = [b - a for own in documents.values() for a, b in zip(own["moves"], own["moves"][1:])]
    totals = {"documents": len(documents),
              "within_1.1_of_the_best_row": sum(own["tuned"] <= 1.1 * own["best"] + 0.001 for own in documents.values()),
              "the_default_alone": sum(own["rows"][DEFAULT] <= 1.1 * own["best"] + 0.001 for own in documents.values()),
              "mean_loss": {"best row": statistics.mean(own["best"] for own in documents.values()),
                            "tuned": statistics.mean(own["tuned"] for own in documents.values()),
                            DEFAULT: statistics.mean(own["rows"][DEFAULT] for own in documents.values())},
              "least_time_between_moves_s": min(gaps, default=None)}
    for n, own in documents.items():
        print(n, own["change"], f"tuned {own['tuned']:.4f} best {own['best']:.4f} default {own['rows'][DEFAULT]:.4f}", own["moves"])
    print(json.dumps(totals, indent=1))
    document = {"summary": totals, "documents": documents}
    plot.save(args.name or "policies_changing", drawings.DRAWN["policies_changing"](document), document)


def overload(args):
    document = load("resnet50.yaml")
    peak = statistics.median(goodput(args.binary, document, DEFAULT, s, 60) for s in (1, 2, 3))
    shares = [0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0]
    curves = {policy: [] for policy in args.policies}
    jobs = [(policy, share) for policy in args.policies for share in shares]
    outs = each(args, jobs, lambda job: fermata(args.binary, "simulate", dict(
        document, scheduler=job[0], rate_rps=job[1] * peak)))
    for (policy, share), out in zip(jobs, outs):
        curves[policy].append({"offered_of_peak": share, "on_time_rps": out["on_time_rps"],
                               "idle": 1 - out["worker_utilization"]})
    long = fermata(args.binary, "simulate",
                   dict(document, scheduler=DEFAULT, rate_rps=9000, duration_s=900))
    print(plot.table(["offered / peak", *args.policies, "idle of " + DEFAULT],
                     [[share, *(curves[p][i]["on_time_rps"] for p in args.policies),
                       curves[DEFAULT][i]["idle"]] for i, share in enumerate(shares)]))
    print(f"peak {peak:.0f}/s; 9000/s for 900 s: {long['on_time_rps']:.0f}/s on time")
    document = {"peak_rps": peak, "on_time_at_9000_for_900_s": long["on_time_rps"], "curves": curves}
    plot.save("policies_overload", drawings.policies_overload(document), document)


def hold(args):
    def simulate(document):
        return fermata(args.binary, "simulate", document)

    jobs = {"16 twins beside 400 rare models, 32 workers": lambda: claims.twins(args, simulate)}
    for n in (1, 2, 8):
        jobs[f"deadlines of 20 and 500 ms in one queue, {n} workers"] = lambda n=n: claims.deadlines(args, simulate, goodput, n)
        jobs[f"impossible deadlines, {n} workers"] = lambda n=n: claims.impossible(args, simulate, goodput, n)
        for kind in claims.BACKLOG:
            jobs[f"a backlog {kind} beside a service, {n} workers"] = lambda n=n, kind=kind: claims.backlog(
                args, simulate, goodput, n, kind)
    for name in ROWS:
        jobs[f"half of the peak, {name}"] = lambda name=name: claims.half_of_peak(args, simulate, goodput, load(f"{name}.yaml"))
    for name, change in (("resnet50", claims.bursty), ("zoo_1080ti", claims.long_tailed)):
        jobs[f"half of the peak, {name}, {change.__name__}"] = lambda name=name, change=change: claims.half_of_peak(
            args, simulate, goodput, change(load(f"{name}.yaml")))
    for name in ("resnet50", "inception_resnet_v2", "zoo_1080ti"):
        for kind in claims.WRONG:
            jobs[f"a profile that is {kind}, {name}"] = lambda name=name, kind=kind: claims.wrong_profiles(
                args, simulate, goodput, load(f"{name}.yaml"), DEFAULT, kind)
    if args.only:
        jobs = {name: job for name, job in jobs.items() if args.only in name}
    found = dict(zip(jobs, each(args, jobs, lambda name: jobs[name]())))
    for name, figures in found.items():
        print(f"{name}: " + ", ".join(f"{key} {value:.4g}" for key, value in figures.items()))
    wrong = claims.missed(found)
    if args.only:
        return
    document = {"must": claims.MUST, "claims": found, "missed": wrong}
    plot.save("policies_claims", drawings.policies_claims(document), document)
    if wrong:
        sys.exit("MISSED: " + "; ".join(f"{claim}: {key} is {value:.4g}, must be at most {must}" for claim, key, value, must in wrong))


def symphony(args):
    found = figures.measure(args, lambda document, policy: goodput(args.binary, document, policy, 1, document["duration_s"]),
                            lambda document: fermata(args.binary, "simulate", document), load)
    print(json.dumps(found, indent=1))
    plot.save("policies_figures", drawings.DRAWN["policies_figures"](found), found)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["table", "suite", "pools", "tuned", "changing", "ablate", "overload", "claims", "figures"])
    parser.add_argument("--binary", default=str(HERE.parent.parent / "build" / "fermata"))
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--only", default="", help="suite, claims: cases whose name contains this")
    parser.add_argument("--confirm", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="pools: the number of the first")
    parser.add_argument("--count", type=int, default=pools.COUNT, help="pools: how many")
    parser.add_argument("--seeds", type=int, default=1, help="pools: of each")
    parser.add_argument("--name", help="pools, ablate: of the record")
    parser.add_argument("--rules", help="ablate: only these, by commas")
    parser.add_argument("--sets", default="five,suite,pools,drawn,best_effort,closed", help="ablate: on which")
    parser.add_argument("--seed", type=int, default=26, help="ablate: of what is drawn anew")
    parser.add_argument("--kept", help="tuned, ablate: a file of what has been measured")
    parser.add_argument("--closed", help="ablate: the program bench_closed_loop")
    parser.add_argument("--together-off", nargs="*", default=[], metavar="NAME:RULE=off,...", help="ablate: several rules off at once")
    parser.add_argument("--together", type=int, default=os.cpu_count(), help="runs at a time")
    args = parser.parse_args()
    args.policies = args.policies.split(",")
    {"table": table, "suite": suite, "pools": small_pools, "tuned": tuned, "changing": changing, "ablate": lambda own: ablate.run(own, load, ROWS, case_document, each), "overload": overload, "claims": hold, "figures": symphony}[args.what](args)


if __name__ == "__main__":
    main()
