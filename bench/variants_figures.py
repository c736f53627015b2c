"""Figures of SneakPeek's section 6 with the zoo's applications, in virtual time.

What a window leaves goes on in the next, and baselines batch neighbours of one variant. By default
12 requests arrive in a window of 100 ms, with 150 ms to their deadlines, and variants are slowed so
that the best ones alone need three windows for that. Variants are either all resident, with no
load times, or loaded, as long as measured, where the one that the worker holds is another."""

import math
import statistics
import sys

import numpy

import applications
import plot

POLICIES = ("fermata", "sneakpeek", "grouped", "lo-priority", "lo-edf", "maxacc-edf")
LOAD, WINDOW_REQUESTS, WINDOWS_A_SECOND = 3, 12, 10
SWEEP_S = 5
WAYS = {"oblivious": (False, False), "data-aware": (True, False),
        "data-aware, short circuits": (True, True)}
STUDENT_95 = {2: 12.71, 4: 3.18, 6: 2.57, 8: 2.36, 10: 2.26}  # by the number of runs
RESIDENCY = {"all resident": None, "one resident": 1}
PRIORS = ("uninformative", "weakly informative", "strongly informative")


def slowed(records):
    return LOAD * applications.bearable_rps(records) / (WINDOW_REQUESTS * WINDOWS_A_SECOND)


def measure(records, seeds, policy, load=LOAD, **how):
    """Medians over the seeds."""
    runs = [applications.simulate(applications.scenario(
        records, policy, load, slowed=slowed(records), seed=seed, **how))
        for seed in range(1, seeds + 1)]
    return {what: statistics.median(run[what] for run in runs) for what in runs[0]}


def sweep(records, seeds, name, xlabel, points, policies=POLICIES[:-1]):
    """`points`: what `measure` takes, by the value on the axis. Without maxacc-edf, as the paper."""
    rows = {policy: [measure(records, seeds, policy, seconds=SWEEP_S, **how)["utility"]
                     for how in points.values()] for policy in policies}
    print(f"\n{name}: utility by {xlabel}")
    print(plot.table([xlabel, *map(str, points)], [[p, *values] for p, values in rows.items()]))
    figure, axis = plot.axes(xlabel, "utility")
    for policy, values in rows.items():
        axis.plot(range(len(points)), values, "o-", label=policy)
    axis.set_xticks(range(len(points)), list(map(str, points)))
    axis.legend()
    document = {"seeds": seeds, "x": list(points), "utility": rows}
    print(plot.save(f"variants_{name}", figure, document))


def policies(records, seeds, residency):
    """Figures 5 and 6."""
    held, suffix = RESIDENCY[residency], residency.replace(" ", "_")
    rows = {(policy, short, penalty): measure(records, seeds, policy, short_circuit=short,
                                              penalty=penalty, resident=held)
            for penalty in ("sigmoid", "step") for short in (True, False) for policy in POLICIES}
    what = ("utility", "accuracy", "late", "dropped", "short_circuited")
    print(f"\npolicies, {residency}: three windows of work a window (sneakpeek, fermata: data-aware)")
    print(plot.table(["penalty", "policy", "short circuit", *what],
                     [[penalty, policy, "yes" if short else "no", *(row[w] for w in what)]
                      for (policy, short, penalty), row in rows.items()]))
    figure, axes = plot.axes("", "", columns=3)
    for axis, part in zip(axes, what):
        for i, short in enumerate((True, False)):
            axis.bar([p + 0.4 * i for p in range(len(POLICIES))],
                     [rows[policy, short, "sigmoid"][part] for policy in POLICIES], 0.4,
                     label="short circuit" if short else "none")
        axis.set_xticks([p + 0.2 for p in range(len(POLICIES))], POLICIES, rotation=30)
        axis.set_ylabel(part)
        axis.legend()
    print(plot.save(f"variants_policies_{suffix}", figure, {"seeds": seeds, "rows": [
        {"policy": p, "short_circuit": s, "penalty": penalty, **row}
        for (p, s, penalty), row in rows.items()]}))
    # The claims of section 6.2.
    ours, local = (rows[p, True, "sigmoid"]["utility"] for p in ("sneakpeek", "lo-edf"))
    if ours < 2 * local:
        yield f"figure 5, {residency}: sneakpeek over lo-edf is {ours / local:.2f}, not 2"
    late = rows["sneakpeek", True, "step"]
    if late["late"] + late["dropped"] > 0.03:
        yield f"figure 6, {residency}: {late['late'] + late['dropped']:.1%} of sneakpeek's violate"


def error(a, prior, k):
    """Mean distance of the estimated accuracy from the recall of the true class, over variants."""
    recall = numpy.array([v["recall"] for v in a["variants"]])
    truth = applications.digits(a["labels"])[:, 0]
    if k is None:
        estimate = numpy.array([v["accuracy"] for v in a["variants"]])[None]
    else:
        found = applications.counts(applications.digits(a["neighbours"]), len(prior), k)
        theta = (prior + found) / (prior + found).sum(1, keepdims=True)
        estimate = theta @ recall.T
    return float(numpy.abs(estimate - recall[:, truth].T).mean())


def priors(a):
    """By name; informative ones of the true labels, and of those of the calibration data."""
    truth = applications.digits(a["labels"])[:, 0]
    classes = len(a["variants"][0]["recall"])
    true = numpy.maximum(numpy.bincount(truth, minlength=classes) / len(truth), 1e-3)
    wrong = numpy.full(classes, 1 / classes)
    each = WINDOW_REQUESTS / 3  # of one application in a window
    return {"uninformative": [numpy.full(classes, applications.JEFFREYS)] * 2,
            "weakly informative": [true, wrong],
            "strongly informative": [each * true, each * wrong]}


def estimates(records):
    """Figures 7 and 10."""
    rows, document = [], {}
    for name, a in records["applications"].items():
        flat = priors(a)["uninformative"][0]
        document[name] = {"profile": error(a, flat, None), "k = 1": error(a, flat, 1),
                          "k = 5": error(a, flat, 5)}
        for prior in PRIORS[1:]:
            right, wrong = priors(a)[prior]
            document[name][f"k = 5, {prior}"] = error(a, right, 5)
            document[name][f"k = 5, {prior}, of other labels"] = error(a, wrong, 5)
        if document[name]["k = 5"] >= min(document[name]["k = 1"], document[name]["profile"]):
            yield f"figure 7: for {name} the error of k = 5 is not the least"
    rows = [[what, *(document[name][what] for name in document)] for what in document[name]]
    print("\nestimates: mean error of a variant's accuracy")
    print(plot.table(["estimated by", *document], rows))
    figure, axis = plot.axes("", "mean error of estimated accuracy", width=8)
    for i, row in enumerate(rows):
        axis.bar([p + i / 9 for p in range(len(document))], row[1:], 1 / 9, label=row[0],
                 color=f"C{i}")
    axis.set_xticks([p + 0.35 for p in range(len(document))], document)
    axis.legend(fontsize=7)
    print(plot.save("variants_estimates", figure, document))


def added(after, before):
    """The 95 % interval of the mean difference of paired runs."""
    differences = [x - y for x, y in zip(after, before)]
    deviation = statistics.stdev(differences) / math.sqrt(len(differences))
    half = STUDENT_95[len(differences)] * deviation
    return statistics.mean(differences) - half, statistics.mean(differences) + half


def switched(records, policy, way, seed):
    """Utility of one run; the same seed gives the same requests to every policy and way."""
    aware, short = WAYS[way]
    document = applications.scenario(records, policy, LOAD, slowed(records), seed, SWEEP_S)
    return applications.simulate(document | {"data_aware": aware, "short_circuit": short})["utility"]


def gains(records, runs):
    """By policy the columns of the table; and all numbers."""
    table, document = {}, {}
    for policy in POLICIES:
        of = {way: [switched(records, policy, way, seed) for seed in range(1, runs + 1)]
              for way in WAYS}
        ways = list(WAYS)
        document[policy] = {way: {"utility": statistics.mean(of[way]),
                                  "added": added(of[way], of[ways[max(0, i - 1)]])}
                            for i, way in enumerate(ways)}
        table[policy] = [document[policy]["oblivious"]["utility"],
                         *("{:+.4f} to {:+.4f}".format(*document[policy][way]["added"])
                           for way in ways[1:])]
    return table, document


def awareness(records, seeds):
    """Figure 8: what looking at the data, and short circuits, are worth to each policy."""
    gained, document = gains(records, seeds)
    print("\nawareness: utility, and what is added with its 95 % interval")
    print(plot.table(["policy", "oblivious", "by looking at the data", "by short circuits besides"],
                     [[policy, *row] for policy, row in gained.items()]))
    figure, axis = plot.axes("", "utility", width=7)
    for i, what in enumerate(WAYS):
        axis.bar([p + 0.27 * i for p in range(len(POLICIES))],
                 [document[policy][what]["utility"] for policy in POLICIES], 0.27, label=what)
    axis.set_xticks([p + 0.27 for p in range(len(POLICIES))], POLICIES)
    axis.legend()
    print(plot.save("variants_awareness", figure, document))
    for policy, row in document.items():
        low, high = row["data-aware"]["added"]
        if high < 0:
            yield f"figure 8: looking at the data costs {policy} {low:.4f} to {high:.4f}"


def by_deadline(records, seeds, name, **how):
    sweep(records, seeds, name, "SLO, ms",
          {ms: {"slo_ms": ms, **how} for ms in (50, 100, 150, 200, 300)})


def all_of_them(records, seeds):
    failures = [*estimates(records), *awareness(records, 2 * seeds)]
    for residency in RESIDENCY:
        failures += policies(records, seeds, residency)
    sweep(records, seeds, "evidence", "share of neighbours of the true class",
          {p: {"accuracy": p} for p in (0.1, 0.3, 0.5, 0.7, 0.9)},
          policies=("fermata", "sneakpeek", "grouped"))
    by_deadline(records, seeds, "deadlines")
    by_deadline(records, seeds, "deadlines_one_resident", resident=1)
    by_deadline(records, seeds, "penalty_step", penalty="step")
    by_deadline(records, seeds, "penalty_linear", penalty="linear")
    by_deadline(records, seeds, "deadlines_two_workers", workers=2, load=2 * LOAD)
    sweep(records, seeds, "rates", "requests a window, SLO 200 ms",
          {n: {"load": LOAD * n / WINDOW_REQUESTS, "slo_ms": 200} for n in (6, 12, 24, 48)})
    sweep(records, seeds, "workers", "workers, 12 requests a window each",
          {w: {"load": LOAD * w, "workers": w} for w in (1, 2, 4)})
    print(f"\nmedians of {seeds} seeds", file=sys.stderr)
    return failures
