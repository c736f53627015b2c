#!/usr/bin/env python3
"""Pipelines on shared workers beside IPA's dedicated replicas, in virtual time.

For each of the published pipelines and loads: what IPA costs, how accurate it is and how many requests it
answers in time; and how few workers of one core the default needs for no less of both. A variant that was
profiled on several cores runs on one for as much longer, which is more than it would take. Beside it the cores that
are busy at that accuracy in any case: nothing can cost less, whoever schedules. Then overload: as many cores as IPA
had, bounded by them, and more requests than these carry with the lightest variants in their best batches. Needs the published
profiles and excerpts, which are not part of the project (FERMATA_IPA_DATA).

    bench/pipelines_pool.py [--part cost] [--workloads steady_low steady_high] [--names video nlp]
    bench/pipelines_pool.py --part overload [--overload 1.5] [--seconds 300]
    bench/pipelines_pool.py --part bounds

Cells that are not named stay in the record as an earlier run left them.
"""

import argparse
import itertools
import json
import pathlib
import statistics
import subprocess
import tempfile

import pipeline
import pipelines
import record

SHORT_OF = (0.0, 0.005)  # of IPA's accuracy


def scenario(problem, loads, workers, folder):
    """The pipeline on so many workers; variants share what they are and no more."""
    trace = pathlib.Path(folder) / "trace.txt"
    trace.write_text("\n".join(str(load) for load in loads) + "\n")
    stages = []
    for stage in problem["stages"]:
        variants = [{"name": variant["name"], "accuracy": variant["accuracy"],
                     "latency_ms": {"table": {size: ms * variant["cost"] for size, ms in
                                              variant["latency_ms"]["table"].items()}}}
                    for variant in stage["variants"]]
        stages.append({"name": stage["name"], "variants": variants})
    return {"seed": 1, "warmup_s": 0, "duration_s": len(loads), "scheduler": "fermata",
            "workers": {"count": workers},
            "pipelines": [{"name": "p", "slo_ms": problem["sla_ms"], "stages": stages,
                           "arrival": {"process": "trace", "file": str(trace)}}]}


def simulate(binary, document):
    done = subprocess.run([binary, "simulate", "-"], input=json.dumps(document), text=True,
                          capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    row = json.loads(done.stdout)["pipelines"][0]
    return {"attainment": row["on_time"] / row["offered"], "accuracy": row["accuracy"]}


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


def ipa(given, name, loads, cores=None, method="IPA"):
    made = pipelines.document(name, "steady_low", method, "reactive", 1, None)
    made["loads"] = loads
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


PARTS = {"cost": ("pipelines_pool", least_cost), "overload": ("pipelines_pool_overload", beyond_capacity),
         "bounds": ("pipelines_pool_bounds", lambda *_: None)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=pipelines.ROOT / "build/fermata")
    parser.add_argument("--part", choices=PARTS, default="cost")
    parser.add_argument("--workloads", nargs="+", default=["steady_low", "steady_high"])
    parser.add_argument("--names", nargs="+", default=list(pipelines.RIM))
    parser.add_argument("--overload", type=float, default=1.5, help="of what the cores can carry at all")
    parser.add_argument("--seconds", type=int, default=300, help="of the load in overload")
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
