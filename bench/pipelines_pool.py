#!/usr/bin/env python3
"""Pipelines on shared workers beside IPA's dedicated replicas, in virtual time.

For each of the published pipelines and loads: what IPA costs, how accurate it is and how many requests it
answers in time; and how few workers of one core the default needs for no less of both, a fixed number of them or
(`adapted`) one that an adapter plans as IPA does, every 10 seconds and 8 seconds ahead, of workers of one or more cores. A
variant that was profiled on more cores than a worker has runs for as much longer there, which is more than it would take;
one that was profiled on fewer runs its batch in equal parts side by side. Beside it the cores that
are busy at that accuracy in any case: nothing can cost less, whoever schedules. Then overload: as many cores as IPA
had, bounded by them, and more requests than these carry with the lightest variants in their best batches. Needs the published
profiles and excerpts, which are not part of the project (FERMATA_IPA_DATA).

    bench/pipelines_pool.py [--part cost] [--workloads steady_low steady_high] [--names video nlp]
    bench/pipelines_pool.py --part adapted [--model load.onnx] [--weight 1]
    bench/pipelines_pool.py --part overload [--overload 1.5] [--seconds 300]
    bench/pipelines_pool.py --part bounds

Cells that are not named stay in the record as an earlier run left them.
"""

import argparse
import concurrent.futures
import functools
import itertools
import json
import math
import pathlib
import statistics
import subprocess
import tempfile

import pipeline
import pipelines
import record

SHORT_OF = (0.0, 0.005)  # of IPA's accuracy
LEAD_IN = 60  # seconds that do not count, at the first load: nothing is planned before the first 10
# What is tried, to be no worse than IPA: powers of two of cost's weight, then margins on the forecast.
LEAST_POWER, MOST_POWER = -4, 4
MARGINS = (0.7, 0.85, 1, 1.15)
CORES = (1, 4)  # of a worker


def latency_on(cores, variant):
    table, own = variant["latency_ms"]["table"], int(variant["cost"])
    if own >= cores:
        return {size: ms * own / cores for size, ms in table.items()}
    return {size: table[str(max(1, int(size) * own // cores))] for size in table}


def scenario(problem, loads, workers, folder, adapter=None, cores=1):
    """The pipeline on so many workers; variants share what they are and no more. With an adapter on up to so many."""
    lead = [round(statistics.mean(loads[:10]))] * LEAD_IN if adapter else []
    trace = pathlib.Path(folder) / "trace.txt"
    trace.write_text("\n".join(str(load) for load in lead + loads) + "\n")
    stages = []
    for stage in problem["stages"]:
        variants = [{"name": variant["name"], "accuracy": variant["accuracy"],
                     "latency_ms": {"table": latency_on(cores, variant)}}
                    for variant in stage["variants"]]
        stages.append({"name": stage["name"], "variants": variants})
    count = {"count": "auto", "max": workers, "apply_s": 8} if adapter else {"count": workers}
    return {"seed": 1, "warmup_s": len(lead), "duration_s": len(loads), "scheduler": "fermata", "workers": count,
            "pipelines": [{"name": "p", "slo_ms": problem["sla_ms"], "stages": stages,
                           "arrival": {"process": "trace", "file": str(trace)}}
                          | ({"adapter": adapter} if adapter else {})]}


def simulate(binary, document):
    done = subprocess.run([binary, "simulate", "-"], input=json.dumps(document), text=True,
                          capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    result = json.loads(done.stdout)
    row = result["pipelines"][0]
    return {"attainment": row["on_time"] / row["offered"], "accuracy": row["accuracy"], "workers": result["workers"]}


def least_work(problem, accuracy):
    """Core seconds of a request: of all mixtures of variants that are so accurate on average, each in its best batch."""
    paths = [(0.0, 1.0)]
    for stage in problem["stages"]:
        options = [(variant["cost"] * min(ms / int(size) for size, ms in variant["latency_ms"]["table"].items()) / 1e3,
                    variant["accuracy"]) for variant in stage["variants"]]
        paths = [(work + more, found * own) for work, found in paths for more, own in options]
    best = min(work for work, found in paths if found >= accuracy - 1e-9)
    for low, less in paths:
        for high, most in paths:
            if less < accuracy <= most:
                share = (accuracy - less) / (most - less)
                best = min(best, low * (1 - share) + high * share)
    return best


def ipa(given, name, loads, cores=None, method="IPA", power=0, margin=1):
    made = pipelines.document(name, "steady_low", method, "model" if given.model else "reactive", 1, given.model,
                              given.weight)
    made.update(loads=loads, margin=margin)
    made["pipeline"]["beta"] *= 2.0 ** power
    if cores:
        made["pipeline"]["max_cost"] = cores
    return pipelines.run(given.binary, made)


def least_workers(given, problem, loads, wanted, most, tried, short_of):
    """By bisection; None where even `most` are too few. Accuracy may fall short by so much."""
    def good(workers):
        if workers not in tried:
            with tempfile.TemporaryDirectory() as folder:
                tried[workers] = simulate(given.binary, scenario(problem, loads, workers, folder))
        found = tried[workers]
        return (found["attainment"] >= wanted["attainment"] - 1e-9
                and found["accuracy"] >= wanted["accuracy"] - short_of - 1e-9)
    if not good(most):
        return None
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if good(middle) else (middle, high)
    return high


def least_cost(given, name, problem, loads, row):
    """How few workers are no worse than IPA."""
    tried = {}
    most = int(1.4 * row["ipa"]["cost"]) + 1
    row["workers"] = {str(short_of): least_workers(given, problem, loads, row["ipa"], most, tried, short_of)
                      for short_of in SHORT_OF}


def cheapest(at, wanted, enough):
    """Of the weights and margins that are tried, those that cost least and are no worse; None: none are."""
    found = []
    for margin in MARGINS:
        low, high = LEAST_POWER, MOST_POWER + 1  # the former is accurate enough, the latter not
        if at(low, margin)["accuracy"] < enough - 1e-9:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if at(middle, margin)["accuracy"] >= enough - 1e-9 else (low, middle)
        if at(low, margin)["attainment"] >= wanted["attainment"] - 1e-9:
            found.append(at(low, margin))
    return min(found, key=lambda each: each["cost"], default=None)


def adapted(given, name, problem, loads, row):
    """With the weights that IPA plans with; and with the cheapest of those tried that are no worse than IPA so, for both:
    that is chosen knowing the load."""
    most = 4 * row["ipa"]["cost"] + 4

    @functools.cache
    def pool(cores, power, margin):
        adapter = {"alpha": problem["alpha"] * given.weight, "beta": problem["beta"] * cores * 2.0 ** power,
                   "delta": problem["delta"], "margin": margin}
        with tempfile.TemporaryDirectory() as folder:
            found = simulate(given.binary, scenario(problem, loads, math.ceil(most / cores), folder, adapter, cores))
        return {"cost": found["workers"] * cores, "accuracy": found["accuracy"], "attainment": found["attainment"],
                "cores": cores, "beta": 2.0 ** power, "margin": margin}

    @functools.cache
    def replicas(power, margin):
        found = ipa(given, name, loads, power=power, margin=margin)
        return {k: found[k] for k in ("cost", "accuracy", "attainment")} | {"beta": 2.0 ** power, "margin": margin}

    wanted = row["ipa"]
    who = [functools.partial(pool, cores) for cores in given.cores] + [replicas]
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as threads:
        tuned = list(threads.map(lambda at: {str(short_of): cheapest(at, wanted, wanted["accuracy"] - short_of)
                                             for short_of in SHORT_OF}, who))
    row["adapted"] = [pool(cores, 0, 1) for cores in given.cores]
    row["cost by it"] = [each["cost"] / wanted["cost"] for each in row["adapted"]]
    row["tuned"] = {}
    for short_of in map(str, SHORT_OF):
        best = min((each[short_of] for each in tuned[:-1] if each[short_of]), key=lambda each: each["cost"], default=None)
        theirs = tuned[-1][short_of]
        row["tuned"][short_of] = {"adapted": best, "ipa": theirs,
                                  "cost by it": best["cost"] / theirs["cost"] if best and theirs else None}


def beyond_capacity(given, name, problem, loads, row):
    """As many cores as IPA had, and a load that climbs for a third of the time to more than they can carry: plans that
    were feasible stay when nothing is."""
    held = max(1, round(row["ipa"]["cost"]))
    scale = given.overload * held / least_work(problem, 0) / statistics.mean(loads)
    climb = [min(1.0, 0.1 + 2.7 * second / given.seconds) for second in range(given.seconds)]
    more = [round(load * scale * share) for load, share in zip(loads, climb)]
    with tempfile.TemporaryDirectory() as folder:
        default = simulate(given.binary, scenario(problem, more, held, folder))
    found = {"cores": held, "capacity_rps": held / least_work(problem, 0), "rate_rps": statistics.mean(more),
             "default": default}
    for method in ("IPA", "IPA ahead"):
        bounded = ipa(given, name, more, held, method)
        found[method] = {k: bounded[k] for k in ("cost", "accuracy", "attainment")}
        found[f"goodput over {method}"] = default["attainment"] / max(bounded["attainment"], 1e-9)
    row["overload"] = found


PARTS = {"cost": ("pipelines_pool", least_cost), "adapted": ("pipelines_pool_adapted", adapted),
         "overload": ("pipelines_pool_overload", beyond_capacity),
         "bounds": ("pipelines_pool_bounds", lambda *_: None)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=pipelines.ROOT / "build/fermata")
    parser.add_argument("--part", choices=PARTS, default="cost")
    parser.add_argument("--workloads", nargs="+", default=["steady_low", "steady_high"])
    parser.add_argument("--names", nargs="+", default=list(pipelines.RIM))
    parser.add_argument("--overload", type=float, default=1.5, help="of what the cores can carry at all")
    parser.add_argument("--seconds", type=int, default=300, help="of the load in overload")
    parser.add_argument("--model", type=pathlib.Path, help="IPA's forecast, .onnx; else reactive")
    parser.add_argument("--weight", type=float, default=pipelines.PERCENT, help="of accuracies; 1: as IPA's runs")
    parser.add_argument("--jobs", type=int, default=1, help="simulations at once")
    parser.add_argument("--cores", nargs="+", type=int, default=CORES, help="of an adapted worker")
    given = parser.parse_args()
    if not pipeline.DATA.exists():
        raise SystemExit(f"no published profiles in {pipeline.DATA}; FERMATA_IPA_DATA names the folder")
    name_of_record, measure = PARTS[given.part]
    earlier = record.read(name_of_record)
    asked = set(itertools.product(given.names, given.workloads))
    rows = [row for row in earlier.get("rows", []) if (row["pipeline"], row["load"]) not in asked]
    before = record.left(earlier) if rows else None
    for name, workload in itertools.product(given.names, given.workloads):
        problem = dict(pipeline.published(1))[name]
        loads = pipelines.loads(workload)
        wanted = ipa(given, name, loads)
        answered = statistics.mean(loads) * wanted["attainment"]
        row = {"pipeline": name, "load": workload,
               "busy": {str(short_of): answered * least_work(problem, wanted["accuracy"] - short_of)
                        for short_of in SHORT_OF},
               "ipa": {k: wanted[k] for k in ("cost", "accuracy", "attainment")}}
        measure(given, name, problem, loads, row)
        rows.append(row)
        print(json.dumps(row), flush=True)
        record.write(name_of_record, {"rows": rows}, before=before)


if __name__ == "__main__":
    main()
