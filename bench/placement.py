#!/usr/bin/env python3
"""Placement against a solver for mixed-integer programs (Symphony, appendix A).

Writes the MILP of equations 4 to 11 for CBC (Debian's coinor-cbc), lets both
work on the same problems, and compares the objective that each reached. The
figure: 800 models on 20 sub-clusters, rate and memory imbalance at most 1 %
within about a second's steps, and not worse than CBC after a minute.

    bench/placement.py [--binary build/fermata] [--seconds 60] [--cases 800x20,...]
"""

import argparse
import json
import pathlib
import random
import re
import resource
import subprocess
import tempfile

import plot

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Table 1 of the paper: static and dynamic memory of six models, MB.
TABLE1 = [(99, 2172), (88, 1519), (230, 3386), (84, 2653), (170, 2798), (822, 6200)]
CASES = ["20x4", "100x5", "800x20", "800x20-tenth"]


def problem(models, subclusters, seed=1):
    draw = random.Random(seed)
    rows = []
    for i in range(models):
        static, dynamic = draw.choice(TABLE1)
        size = draw.uniform(0.8, 1.2)
        rows.append({"name": f"m{i}", "rate_rps": draw.expovariate(1 / 100),
                     "static_mb": static * size, "dynamic_mb": dynamic * size, "change_cost": 1})
    share = models / subclusters
    return {"subclusters": subclusters, "max_rate_rps": 200 * share, "memory_mb": 400 * share + 7500,
            "seed": seed, "models": rows}


def cpu_seconds():
    """Of the programs run so far: a busy machine then slows neither down."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


def ours(binary, document):
    started = cpu_seconds()
    done = subprocess.run([binary, "plan", "placement", "-"], input=json.dumps(document), text=True,
                          capture_output=True, check=True)
    return json.loads(done.stdout), cpu_seconds() - started


def redrawn(binary, document, seed=2):
    """An epoch later: every rate drawn anew, a tenth of the models may move."""
    before, _ = ours(binary, document)
    draw = random.Random(seed)
    for model in document["models"]:
        model["current"] = before["assignment"][model["name"]]
        model["rate_rps"] = draw.expovariate(1 / 100)
    document["max_change_cost"] = 2 * len(document["models"]) / 10
    return document


def case(binary, name):
    size, _, kind = name.partition("-")
    models, subclusters = map(int, size.split("x"))
    document = problem(models, subclusters)
    return redrawn(binary, document) if kind == "tenth" else document


def means(document):
    bins = document["subclusters"]
    return (sum(m["rate_rps"] for m in document["models"]) / bins,
            sum(m["static_mb"] for m in document["models"]) / bins)


def write_lp(document, path):
    """Equations 4 to 11, in CPLEX's LP format; D_j is the largest dynamic part of j."""
    models, bins = document["models"], range(document["subclusters"])
    rate, memory = means(document)

    def total(j, field):
        return " ".join(f"+ {m[field]:.9g} x{i}_{j}" for i, m in enumerate(models))

    with open(path, "w") as lp:
        lp.write(f"Minimize\n obj: {1 / rate:.12g} dR + {1 / memory:.12g} dS\nSubject To\n")
        for j in bins:
            lp.write(f" r{j}: {total(j, 'rate_rps')} <= {document['max_rate_rps']:.9g}\n")
            lp.write(f" s{j}: {total(j, 'static_mb')} + D{j} <= {document['memory_mb']:.9g}\n")
            lp.write(f" ru{j}: {total(j, 'rate_rps')} - dR <= {rate:.12g}\n")
            lp.write(f" rl{j}: {total(j, 'rate_rps')} + dR >= {rate:.12g}\n")
            lp.write(f" su{j}: {total(j, 'static_mb')} - dS <= {memory:.12g}\n")
            lp.write(f" sl{j}: {total(j, 'static_mb')} + dS >= {memory:.12g}\n")
            for i, m in enumerate(models):
                lp.write(f" d{i}_{j}: {m['dynamic_mb']:.9g} x{i}_{j} - D{j} <= 0\n")
        for i in range(len(models)):
            lp.write(f" one{i}: " + " ".join(f"+ x{i}_{j}" for j in bins) + " = 1\n")
        if "max_change_cost" in document:
            stay = " ".join(f"+ {2 * m['change_cost']} x{i}_{m['current']}"
                            for i, m in enumerate(models))
            least = sum(2 * m["change_cost"] for m in models) - document["max_change_cost"]
            lp.write(f" change: {stay} >= {least:.9g}\n")
        lp.write("Binaries\n")
        for i in range(len(models)):
            lp.write(" " + " ".join(f"x{i}_{j}" for j in bins) + "\n")
        lp.write("End\n")


def cbc(document, seconds):
    """The best assignment CBC found, by model, or None."""
    with tempfile.TemporaryDirectory() as folder:
        lp, solution = pathlib.Path(folder, "placement.lp"), pathlib.Path(folder, "solution")
        write_lp(document, lp)
        started = cpu_seconds()
        subprocess.run(["cbc", lp, "timeMode", "cpu", "sec", str(seconds), "solve", "solution",
                        solution], stdout=subprocess.DEVNULL, check=True)
        took = cpu_seconds() - started
        chosen = {}
        if solution.exists():
            for line in solution.read_text().splitlines():
                if match := re.match(r"\s*\**\s*\d+\s+x(\d+)_(\d+)\s+(\S+)", line):
                    if float(match[3]) > 0.5:
                        chosen[int(match[1])] = int(match[2])
    return (chosen if len(chosen) == len(document["models"]) else None), took


def objective(document, chosen):
    loads = {field: [0.0] * document["subclusters"] for field in ("rate_rps", "static_mb")}
    for i, j in chosen.items():
        for field, load in loads.items():
            load[j] += document["models"][i][field]
    return sum(max(abs(x - mean) for x in load) / mean
               for load, mean in zip(loads.values(), means(document)))


def measure(binary, name, seconds):
    document = case(binary, name)
    placed, our_seconds = ours(binary, document)
    chosen, cbc_seconds = cbc(document, seconds)
    return {"case": name, "objective": placed["objective"], "seconds": our_seconds,
            "rate_imbalance": placed["rate_imbalance"],
            "memory_imbalance": placed["memory_imbalance"], "change_cost": placed["change_cost"],
            "exact": placed["exact"], "cbc_objective": chosen and objective(document, chosen),
            "cbc_seconds": cbc_seconds}


def draw(rows):
    figure, axis = plot.axes("", "objective: $\\Delta R/\\bar R + \\Delta S/\\bar S$")
    for label, field, colour in (("fermata, about 1 s", "objective", plot.BLUE), ("CBC, 60 s", "cbc_objective", plot.GREY)):
        points = [(i, row[field]) for i, row in enumerate(rows) if row[field]]
        axis.plot([x for x, _ in points], [y for _, y in points], "o", color=colour, label=label)
    axis.axhline(0.02, color=plot.NEUTRAL, linestyle=":", label="1 % and 1 %")
    axis.set_yscale("log")
    axis.set_xticks(range(len(rows)), [row["case"] for row in rows])
    plot.legend(axis)
    plot.says(figure, "In a second the placement comes as near to even load and memory as a solver of mixed-integer programs in a minute, or nearer.")
    return plot.save("placement", figure, {"rows": rows})


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "build/fermata")
    parser.add_argument("--seconds", type=int, default=60, help="CPU time for CBC, each case")
    parser.add_argument("--cases", default=",".join(CASES))
    options = parser.parse_args()
    rows = []
    for name in options.cases.split(","):
        print(f"{name}: CBC works for up to {options.seconds} s", flush=True)
        rows.append(measure(options.binary, name, options.seconds))
    print(plot.table(["case", "ours", "s", "rate imb.", "memory imb.", "CBC", "s"],
                     [[r["case"], r["objective"], r["seconds"], r["rate_imbalance"],
                       r["memory_imbalance"], r["cbc_objective"] or "none", r["cbc_seconds"]]
                      for r in rows]))
    print(draw(rows))


if __name__ == "__main__":
    main()
