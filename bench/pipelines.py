#!/usr/bin/env python3
"""The pipelines of IPA's paper, simulated on dedicated replicas as the load changes.

Five pipelines, four excerpts of the load trace, and who adapts them: IPA, FA2 with the lightest and with the
heaviest variants, RIM, all by the same forecast; IPA with other forecasts and with a rule that drops ahead;
SuperServe's SlackFit on RIM's replicas. Accuracy, cost, attainment and drops, in tables and as in the
paper's figures 8 to 12, 14 to 16 and 18, with intervals over seeds (how requests fall within a second). Needs the
published profiles and excerpts, which are not part of the project (FERMATA_IPA_DATA).

    bench/pipelines.py [--binary build/fermata] [--seeds 5] [--model load.onnx] [--jobs 1]
"""

import argparse
import concurrent.futures
import csv
import itertools
import json
import pathlib
import statistics
import subprocess

import pipeline
import drawings
import plot

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKLOADS = ("bursty", "steady_low", "steady_high", "fluctuating")
# Replicas of RIM as its runs had them.
RIM = {"video": [3, 3], "audio-qa": [27, 6], "audio-sent": [20, 5], "sum-qa": [12, 8], "nlp": [6, 22, 12]}
# Accuracies count as percentages, or, as in the paper's own runs, as fractions, where cost outweighs them.
PERCENT = 100
RANKS = 10  # of PAS', whose sums are of ranks from 0 to 1
METHODS = ("IPA", "FA2-low", "FA2-high", "RIM")
BESIDE = ("IPA ahead", "SlackFit")
FORECASTS = ("reactive", "moving-maximum", "square-root", "square-root 95 %", "model", "perfect")
T95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}


def loads(workload):
    rows = csv.DictReader((pipeline.DATA / "workloads" / f"{workload}.csv").open())
    return [int(row["rps"]) for row in rows]


def document(name, workload, method, forecast, seed, model, weight=PERCENT, accuracy="pas"):
    problem = dict(pipeline.published(1))[name]
    del problem["rate_rps"]
    problem.update(alpha=problem["alpha"] * weight, accuracy=accuracy)
    stages = [stage["name"] for stage in problem["stages"]]
    made = {"pipeline": problem, "loads": loads(workload), "seed": seed}
    if method in ("RIM", "SlackFit"):
        made.update(method="rim", replicas=dict(zip(stages, RIM[name])))
    if method.startswith("FA2"):
        made.update(method="fa2", variants="lightest" if method == "FA2-low" else "heaviest")
    if method == "SlackFit":
        made["batches"] = "slack-fit"
    if method == "IPA ahead":
        made["drop"] = "ahead"
    made["forecast"] = forecast.split()[0]
    if forecast.endswith("95 %"):
        made["quantile"] = 0.95
    if forecast == "model":
        made["model"] = str(model)
    return made


def run(binary, made):
    done = subprocess.run([binary, "adapt", "-"], input=json.dumps(made), text=True, capture_output=True,
                          check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def interval(values):
    """The mean and half of its 95 % interval (Student's t)."""
    if len(values) < 2:
        return values[0], 0.0
    return (statistics.mean(values),
            T95[len(values)] * statistics.stdev(values) / len(values) ** 0.5)


def cells(given, keys, made_for):
    """By key: the figures over the seeds, and the series of the first."""
    jobs = [(key, seed) for key in keys for seed in range(1, given.seeds + 1)]
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        results = list(pool.map(lambda job: run(given.binary, made_for(job[0], job[1])), jobs))
    rows = {}
    for (key, seed), result in zip(jobs, results):
        row = rows.setdefault(key, {"runs": []})
        row["runs"].append({field: result[field] for field in
                            ("attainment", "accuracy", "cost", "late", "dropped", "offered", "p99_ms",
                             "smape_percent")})
        if seed == 1:
            row["series"] = [[r["load_rps"], r["accuracy"], r["cost"], r["attainment"], r["dropped"]]
                             for r in result["series"]]
            row["latency_ms"] = result["latency_ms"]
    for row in rows.values():
        row["mean"] = {field: interval([run[field] for run in row["runs"]]) for field in row["runs"][0]}
    return rows


def mean(rows, key, field):
    return rows[key]["mean"][field][0]


def end_to_end(given, weight, accuracy="pas"):
    keys = list(itertools.product(RIM, WORKLOADS, METHODS + BESIDE))
    return cells(given, keys, lambda key, seed: document(*key, given.forecast, seed, given.model, weight,
                                                         accuracy))


def forecasts(given):
    names = [f for f in FORECASTS if f != "model" or given.model]
    keys = list(itertools.product(RIM, names, WORKLOADS))
    return cells(given, keys, lambda key, seed: document(key[0], key[2], "IPA", key[1], seed, given.model))


def trade_offs(given):
    """Figure 14: the weight of accuracy against cost."""
    keys = list(itertools.product(RIM, (1, 10, 100, 1000)))
    return cells(given, keys, lambda key, seed: document(key[0], "bursty", "IPA", given.forecast, seed,
                                                         given.model, weight=key[1]))


def draw_pipeline(name, rows, tag):
    """Figures 8 to 12 and 18: averages by workload."""
    kept = {f"{w} {m}": {"mean": rows[name, w, m]["mean"]} for w in WORKLOADS for m in METHODS + BESIDE}
    return plot.save(f"pipelines_{tag}{name}", drawings.pipelines(kept), kept)


def draw(name, document):
    return plot.save(f"pipelines_{name}", drawings.DRAWN[f"pipelines_{name}"](document), document)


def draw_forecasts(rows):
    """Figure 16: requests that were late or dropped in the bursty load."""
    return draw("forecasts", {"lost": lost_by_forecast(rows), "all workloads": by_workload(rows)} | {
        f"{n} {w} {f}": row["mean"] for (n, f, w), row in rows.items()})


def draw_latencies(rows):
    """Figure 15: the distribution of latencies in the bursty load."""
    return draw("latencies", {f"{name} {method}": rows[name, "bursty", method]["latency_ms"] for name in RIM for method in METHODS})


def draw_trade_offs(rows):
    return draw("trade_offs", {f"{n} {w}": row["mean"] for (n, w), row in rows.items()})


def claims(rows, by_forecast):
    """What the paper claims, and what was found: of each figure its mean over the seeds and half of its 95 % interval."""
    cases = list(itertools.product(RIM, WORKLOADS))
    seeds = range(len(rows[*cases[0], "IPA"]["runs"]))
    at = lambda case, method, field, seed: rows[*case, method]["runs"][seed][field]

    def over_seeds(figure):
        """By case; the median, the least and the largest of the cases in each seed."""
        found = [[figure(case, seed) for seed in seeds] for case in cases]
        each = {" ".join(case): rounded(values) for case, values in zip(cases, found)}
        summary = {name: rounded([pick(case[seed] for case in found) for seed in seeds])
                   for name, pick in (("median", statistics.median), ("least", min), ("most", max))}
        return summary | {"cases": each}

    between = [case for case in cases if all(
        at(case, "FA2-low", "accuracy", seed) - 1e-9 <= at(case, "IPA", "accuracy", seed)
        <= at(case, "FA2-high", "accuracy", seed) + 1e-9 for seed in seeds)]
    rim = over_seeds(lambda *of: at(of[0], "RIM", "cost", of[1]) / at(of[0], "IPA", "cost", of[1]))
    twice = [case for case in rim["cases"].values() if case[0] - case[1] >= 2]
    return {"accuracy between FA2-low and FA2-high, every seed": f"{len(between)} of {len(cases)}",
            "accuracy above FA2-low's": over_seeds(
                lambda *of: at(of[0], "IPA", "accuracy", of[1]) - at(of[0], "FA2-low", "accuracy", of[1])),
            "cost over FA2-low's": over_seeds(
                lambda *of: at(of[0], "IPA", "cost", of[1]) / at(of[0], "FA2-low", "cost", of[1])),
            "cost, 0: FA2-low's, 1: FA2-high's": over_seeds(
                lambda case, seed: (at(case, "IPA", "cost", seed) - at(case, "FA2-low", "cost", seed))
                / (at(case, "FA2-high", "cost", seed) - at(case, "FA2-low", "cost", seed))),
            "RIM's cost over IPA's": rim,
            "RIM at least twice IPA, by its interval": f"{len(twice)} of {len(cases)}",
            "lost in the bursty load by forecast": lost_by_forecast(by_forecast)}


def lost_by_forecast(by_forecast):
    """The share of requests that were late or dropped, and that of `reactive` less that of each, by the same seeds."""
    found = {}
    for forecast in FORECASTS:
        if (next(iter(RIM)), forecast, "bursty") not in by_forecast:
            continue
        lost = lambda name, of: [1 - run["attainment"] for run in by_forecast[name, of, "bursty"]["runs"]]
        own = {name: lost(name, forecast) for name in RIM}
        fewer = {name: [r - f for r, f in zip(lost(name, "reactive"), own[name])] for name in RIM}
        found[forecast] = {
            "lost": rounded([statistics.mean(each) for each in zip(*own.values())]),
            "fewer than reactive": rounded([statistics.mean(each) for each in zip(*fewer.values())]),
            "cases": {name: {"lost": rounded(own[name]), "fewer than reactive": rounded(fewer[name])} for name in RIM}}
    return found


def by_workload(by_forecast):
    """By forecast: over the pipelines the mean share of requests that were late or dropped, and the mean cost over that of
    `perfect`, in each workload and on average."""
    found = {}
    for forecast in sorted({key[1] for key in by_forecast}, key=FORECASTS.index):
        lost, cost = {}, {}
        for workload in WORKLOADS:
            at = lambda name, of, field: mean(by_forecast, (name, of, workload), field)
            lost[workload] = round(statistics.mean(1 - at(name, forecast, "attainment") for name in RIM), 5)
            cost[workload] = round(statistics.mean(
                at(name, forecast, "cost") / at(name, "perfect", "cost") for name in RIM), 4)
        found[forecast] = {"lost": lost | {"mean": round(statistics.mean(lost.values()), 5)},
                           "cost over perfect's": cost | {"mean": round(statistics.mean(cost.values()), 4)}}
    return found


def rounded(values):
    return [round(each, 5) for each in interval(values)]


def show(rows):
    for name, workload in itertools.product(RIM, WORKLOADS):
        print(f"\n{name}, {workload}")
        print(plot.table(["", "accuracy", "cost", "attainment", "+-", "late", "dropped"], [
            [m, *(mean(rows, (name, workload, m), f) for f in ("accuracy", "cost")),
             *rows[name, workload, m]["mean"]["attainment"],
             *(mean(rows, (name, workload, m), f) for f in ("late", "dropped"))]
            for m in METHODS + BESIDE]))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "build/fermata")
    parser.add_argument("--seeds", type=int, default=5, choices=range(1, 11))
    parser.add_argument("--jobs", type=int, default=1, help="simulations at once")
    parser.add_argument("--model", type=pathlib.Path, help="a trained forecast, .onnx")
    parser.add_argument("--forecasts", action="store_true", help="only what the forecasts lose: figure 16, and the other workloads")
    given = parser.parse_args()
    if not pipeline.DATA.exists():
        raise SystemExit(f"no published profiles in {pipeline.DATA}; FERMATA_IPA_DATA names the folder")
    given.forecast = "model" if given.model else "reactive"
    if given.forecasts:
        by_forecast = forecasts(given)
        print(draw_forecasts(by_forecast), json.dumps(lost_by_forecast(by_forecast), indent=1))
        print(json.dumps(by_workload(by_forecast), indent=1))
        return
    rows = end_to_end(given, PERCENT)
    show(rows)
    as_run = end_to_end(given, 1)
    by_forecast = forecasts(given)
    print()
    print(plot.table(["lost by forecast", *RIM], [
        [f, *(1 - mean(by_forecast, (name, f, "bursty"), "attainment") for name in RIM)]
        for f in FORECASTS if ("video", f, "bursty") in by_forecast]))
    for name in RIM:
        print(draw_pipeline(name, rows, ""))
    print(draw_latencies(rows))
    print(draw_forecasts(by_forecast))
    print(draw_trade_offs(trade_offs(given)))
    prime = end_to_end(given, RANKS, "pas-prime")
    for name in ("video", "sum-qa"):
        print(draw_pipeline(name, prime, "prime_"))
    found = {"percentages": claims(rows, by_forecast), "fractions, as run": claims(as_run, by_forecast),
             "pas-prime": claims(prime, by_forecast)}
    for weights, own in found.items():
        for claim, figures in own.items():
            shown = figures if isinstance(figures, str) else {k: v for k, v in figures.items() if k != "cases"}
            print(f"{weights}: {claim}: {json.dumps(shown)}")
    plot.record.write("pipelines", found)


if __name__ == "__main__":
    main()
