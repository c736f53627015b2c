#!/usr/bin/env python3
"""Measures the goodput of scheduling policies by `fermata goodput`.

    run.py table [--policies a,b]          the five workloads, 60 s, median of 3 seeds
    run.py suite [--policies a,b] [--confirm N]   the cases of suite.yaml, 20 s, one seed;
                                           the N worst again with 60 s and 3 seeds

Both print a table and write what they measured to --out (JSON), which plot.py draws."""

import argparse
import copy
import json
import math
import pathlib
import statistics
import subprocess
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
DEFAULT = "fermata"
ROWS = {
    "resnet50": 5297,
    "inception_resnet_v2": 939,
    "zoo_1080ti": 7404,
    "zoo_a100": 17528,
    "densenet121": 13885,
}


def load(name):
    return yaml.safe_load((HERE / name).read_text())


def goodput(binary, document, policy, seed, duration):
    document = dict(document, scheduler=policy, seed=seed, duration_s=duration)
    done = subprocess.run([binary, "goodput", "-"], input=json.dumps(document), text=True,
                          capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{policy}: {done.stderr}")
    return json.loads(done.stdout)["goodput_rps"]


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


def progress(done, total, note):
    sys.stderr.write(f"\r{done}/{total} {note:<60}")
    sys.stderr.flush()


def table(args):
    rows = {}
    for number, (name, must) in enumerate(ROWS.items()):
        document = load(f"{name}.yaml")
        rows[name] = {"must": must}
        for policy in args.policies:
            progress(number, len(ROWS), f"{name} {policy}")
            rates = [goodput(args.binary, document, policy, seed, 60) for seed in (1, 2, 3)]
            rows[name][policy] = statistics.median(rates)
    sys.stderr.write("\n")
    print("| workload | must | " + " | ".join(args.policies) + " |")
    print("|" + "---|" * (2 + len(args.policies)))
    for name, row in rows.items():
        print(f"| {name} | {row['must']} | " +
              " | ".join(f"{row[p]:.0f}" for p in args.policies) + " |")
    return rows


def measure_case(args, suite, case, seeds, duration):
    document = case_document(copy.deepcopy(case), suite)
    return {policy: statistics.median(goodput(args.binary, document, policy, seed, duration)
                                      for seed in seeds) for policy in args.policies}


def ratio(measured):
    best = max(rate for policy, rate in measured.items() if policy != DEFAULT)
    return measured[DEFAULT] / best if best > 0 else 1.0


def print_suite(results, policies):
    print("| case | " + " | ".join(policies) + " | ratio to the best other |")
    print("|" + "---|" * (2 + len(policies)))
    for name, measured in sorted(results.items(), key=lambda item: ratio(item[1])):
        print(f"| {name} | " + " | ".join(f"{measured[p]:.0f}" for p in policies) +
              f" | {ratio(measured):.3f} |")
    ratios = [ratio(m) for m in results.values()]
    print(f"\nworst ratio to the best other policy: {min(ratios):.3f}")
    for other in (p for p in policies if p != DEFAULT):
        logs = [math.log(m[DEFAULT] / m[other]) for m in results.values()
                if m[other] > 0 and m[DEFAULT] > 0]
        print(f"geometric mean over {other}: {math.exp(statistics.mean(logs)):.3f}")


def suite(args):
    description = load("suite.yaml")
    cases = {case["name"]: case for case in description["cases"] if args.only in case["name"]}
    results = {}
    for number, (name, case) in enumerate(cases.items()):
        progress(number, len(cases), name)
        results[name] = measure_case(args, description, case, (1,), 20)
    worst = sorted(results, key=lambda name: ratio(results[name]))[:args.confirm]
    for number, name in enumerate(worst):
        progress(number, len(worst), f"again: {name}")
        results[name] = measure_case(args, description, cases[name], (1, 2, 3), 60)
    sys.stderr.write("\n")
    print_suite(results, args.policies)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["table", "suite"])
    parser.add_argument("--binary", default=str(HERE.parent.parent / "build" / "fermata"))
    parser.add_argument("--policies", default="fermata,deferred,deferred-beta-lambda,"
                        "deferred-prefix,eager,clockwork,edf,nexus")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--confirm", type=int, default=10)
    parser.add_argument("--out", help="where to write the figures as JSON")
    args = parser.parse_args()
    args.policies = args.policies.split(",")
    results = table(args) if args.what == "table" else suite(args)
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
