#!/usr/bin/env python3
"""The pipeline planner against a solver for mixed-integer programs (IPA, equations 7 to 11).

Random pipelines of S stages and V variants each, seven batch sizes: how long `fermata plan
pipeline` takes by its own count, and whether CBC (Debian's coinor-cbc), which is given the linear
PAS' objective, finds the same optimum. With the published profiles also the five pipelines of
the paper at each of 1 to 40 requests a second: PAS' against CBC, PAS against every choice there is.

    bench/pipeline.py [--binary build/fermata] [--sizes 10x10,20x20] [--problems 30] [--solved 5]
"""

import argparse
import csv
import itertools
import json
import math
import os
import pathlib
import random
import re
import statistics
import subprocess
import tempfile

import plot
import record

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = pathlib.Path(os.environ.get("FERMATA_IPA_DATA", ROOT.parent / "shared/data/ipa"))
BATCHES = [1, 2, 4, 8, 16, 32, 64]
CLOSE = 1e-6


def latency(form, batch):
    return form["alpha"] * batch + form["beta"]


def random_problem(stages, variants, accuracy, seed):
    """Costs that double four times from the lightest variant to the heaviest, and an SLA as the paper
    derives it: five times the mean latency of a batch of one."""
    draw = random.Random(seed)
    rows, sla = [], 0
    for s in range(stages):
        fastest, least, stage = draw.uniform(20, 220), draw.uniform(0.8, 0.9), []
        for v in range(variants):
            one, fixed = fastest * (1 + v * draw.uniform(0.5, 1.5)), draw.uniform(0.3, 0.9)
            stage.append({"name": f"v{v}", "cost": 2 ** int(4 * v / variants),
                          "accuracy": least + (0.999 - least) * (v + draw.random()) / variants,
                          "latency_ms": {"alpha": one * (1 - fixed), "beta": one * fixed}})
            sla += 5 * one / variants
        rows.append({"name": f"s{s}", "variants": stage})
    return {"rate_rps": draw.uniform(1, 40), "sla_ms": sla, "alpha": draw.uniform(10, 50), "beta": 0.5,
            "delta": 1e-6, "accuracy": accuracy, "batch_sizes": BATCHES, "max_replicas": 100,
            "stages": rows}


def plan(binary, document):
    """The answer, and how many milliseconds the planner took."""
    done = subprocess.run([binary, "plan", "pipeline", "-"], input=json.dumps(document), text=True,
                          capture_output=True, check=False)
    if done.returncode not in (0, 3):
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout), float(re.search(r"in (\S+) ms", done.stderr)[1])


def options(document, stage, at):
    """(variant, batch, objective, latency and queueing) of the linear program."""
    ranks = sorted({v["accuracy"] for v in stage["variants"]})
    for v, variant in enumerate(stage["variants"]):
        scaled = ranks.index(variant["accuracy"]) / (len(ranks) - 1) if len(ranks) > 1 else 1
        for batch in document["batch_sizes"]:
            ms = at(variant["latency_ms"], batch)
            if ms is None:
                continue
            replicas = max(1, math.ceil(document["rate_rps"] * ms / 1000 / batch - 1e-9))
            if replicas <= document["max_replicas"]:
                worth = (document["alpha"] * scaled - document["beta"] * replicas * variant["cost"]
                         - document["delta"] * batch)
                yield v, batch, worth, ms + (batch - 1) / document["rate_rps"] * 1000


def cbc(document, at=latency):
    """The objective of CBC's optimum, or None, and its seconds of processor time."""
    choices = [list(options(document, stage, at)) for stage in document["stages"]]
    if not all(choices):
        return None, 0
    with tempfile.TemporaryDirectory() as folder:
        lp, solution = pathlib.Path(folder, "pipeline.lp"), pathlib.Path(folder, "solution")
        names = [[f"x{s}_{o}" for o in range(len(rows))] for s, rows in enumerate(choices)]
        sums = lambda k: " ".join(f"{row[k]:+.12f} {name}" for rows, own in zip(choices, names)
                                  for row, name in zip(rows, own))
        text = f"Maximize\n obj: {sums(2)}\nSubject To\n sla: {sums(3)} <= {document['sla_ms']:.15g}\n"
        text += "".join(f" one{s}: {' + '.join(own)} = 1\n" for s, own in enumerate(names))
        lp.write_text(text + "Binaries\n" + "\n".join(" ".join(own) for own in names) + "\nEnd\n")
        done = subprocess.run(["cbc", lp, "ratio", "0", "allow", "0", "increment", "1e-9", "sec", "120", "timeMode", "cpu",
                               "solve", "solution", solution], stdout=subprocess.PIPE, text=True,
                              check=True)
        seconds = float((re.search(r"Total time \(CPU seconds\):\s+(\S+)", done.stdout) or [0, 0])[1])
        # What is infeasible at first sight has no solution file.
        if not solution.exists() or "nfeasible" in solution.read_text().splitlines()[0]:
            return None, seconds
        worth = 0
        for line in solution.read_text().splitlines()[1:]:
            match = re.match(r"\s*\**\s*\d+\s+x(\d+)_(\d+)\s+(\S+)", line)
            if match and float(match[3]) > 0.5:
                worth += choices[int(match[1])][int(match[2])][2]
        return worth, seconds


def same(answer, objective):
    if objective is None:
        return not answer["feasible"]
    return answer["feasible"] and abs(answer["objective"] - objective) <= CLOSE


def measure(binary, size, problems, solved):
    stages, variants = map(int, size.split("x"))
    row = {"size": size, "problems": problems}
    for accuracy in ("pas", "pas-prime"):
        answers = [plan(binary, random_problem(stages, variants, accuracy, seed))
                   for seed in range(problems)]
        times = [ms for _, ms in answers]
        row[accuracy] = {"median_ms": statistics.median(times), "max_ms": max(times),
                         "exact": sum(answer["exact"] for answer, _ in answers)}
    by_cbc = []
    for seed in range(solved):
        document = random_problem(stages, variants, "pas-prime", seed)
        objective, seconds = cbc(document)
        by_cbc.append((same(plan(binary, document)[0], objective), seconds))
    row["cbc"] = {"problems": solved, "same": sum(ok for ok, _ in by_cbc),
                  "median_s": statistics.median(s for _, s in by_cbc) if by_cbc else None}
    return row


def published(rate):
    """The paper's five pipelines, from the folder of published profiles."""
    def table(name):
        return list(csv.DictReader((DATA / name).open()))
    points = {}
    for row in table("profiles.csv"):
        points.setdefault((row["task"], row["variant"]), {})[row["batch"]] = float(row["latency_s"]) * 1e3
    known = {(row["task"], row["variant"]): row for row in table("variants.csv")}
    for name, pipeline in json.loads((DATA / "pipelines.json").read_text())["pipelines"].items():
        stages = [{"name": task, "variants": [
            {"name": variant, "accuracy": float(known[task, variant]["accuracy_paper"]) / 100,
             "cost": float(known[task, variant]["base_cores"]),
             "latency_ms": {"table": points[task, variant]}}
            for variant in pipeline["variants"][task]]} for task in pipeline["stages"]]
        yield name, {"rate_rps": rate, "sla_ms": pipeline["sla_s"] * 1e3, "alpha": pipeline["alpha"],
                     "beta": pipeline["beta"], "delta": pipeline["delta"], "accuracy": "pas-prime",
                     "batch_sizes": BATCHES, "max_replicas": 100, "stages": stages}


def by_table(form, batch):
    return form["table"].get(str(batch))


def best_of_all(document):
    """The objective of the best of all choices by PAS, or None."""
    best = None
    unweighted = document | {"alpha": 0}
    stages = [[(stage["variants"][v]["accuracy"], worth, ms)
               for v, _, worth, ms in options(unweighted, stage, by_table)] for stage in document["stages"]]
    for chosen in itertools.product(*stages):
        if sum(ms for _, _, ms in chosen) > document["sla_ms"] * (1 + 1e-9):
            continue
        worth = (document["alpha"] * math.prod(accuracy for accuracy, _, _ in chosen)
                 + sum(worth for _, worth, _ in chosen))
        best = worth if best is None else max(best, worth)
    return best


def as_published(binary):
    rows = []
    for rate in range(1, 41):
        for name, document in published(rate):
            answer, ms = plan(binary, document)
            row = {"pipeline": name, "rate_rps": rate, "ms": ms,
                   "same_as_cbc": same(answer, cbc(document, by_table)[0])}
            document["accuracy"] = "pas"
            answer, row["pas_ms"] = plan(binary, document)
            row["same_as_all_choices"] = same(answer, best_of_all(document))
            rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "build/fermata")
    parser.add_argument("--sizes", default="10x10,20x20")
    parser.add_argument("--problems", type=int, default=30)
    parser.add_argument("--solved", type=int, default=5, help="of them, also by CBC")
    given = parser.parse_args()
    rows = [measure(given.binary, size, given.problems, given.solved) for size in given.sizes.split(",")]
    print(plot.table(["stages x variants", "PAS ms", "worst", "PAS' ms", "worst", "CBC s", "same optimum"],
                     [[r["size"], r["pas"]["median_ms"], r["pas"]["max_ms"], r["pas-prime"]["median_ms"],
                       r["pas-prime"]["max_ms"], r["cbc"]["median_s"],
                       f"{r['cbc']['same']} of {r['cbc']['problems']}"] for r in rows]))
    paper = as_published(given.binary) if DATA.exists() else None
    if paper is None:
        print(f"no published profiles in {DATA}: the paper's pipelines are left out")
    else:
        print(f"the paper's pipelines: {sum(r['same_as_cbc'] for r in paper)} of {len(paper)} as CBC, "
              f"{sum(r['same_as_all_choices'] for r in paper)} as the best of all choices")
    record.write("pipeline", {"sizes": rows, "paper": paper})


if __name__ == "__main__":
    main()
