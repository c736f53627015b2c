"""Figures of SneakPeek's section 6 with the zoo's applications, in virtual time.

What a window leaves goes on in the next, and baselines batch neighbours of one variant. By default
12 requests arrive in a window of 100 ms, with 150 ms to their deadlines, and variants are slowed so
that the best ones alone need three windows for that. Variants are either all resident, with no
load times, or loaded, for as long as measured and slowed alike, where the one that the worker
holds is another."""

import itertools
import math
import statistics

import variants_zoo
import drawings
import plot
import variants_estimates
import variants_unlike

POLICIES = ("fermata", "sneakpeek", "grouped", "lo-priority", "lo-edf", "maxacc-edf")
SWEPT = POLICIES[:-1]  # without maxacc-edf, as the paper
LOAD = variants_zoo.THREE_WINDOWS
SWEEP_S = 5  # of each run
WAYS = {"oblivious": (False, False), "data-aware": (True, False),
        "data-aware, short circuits": (True, True)}
PAIRED = 5  # times as many seeds, where runs are compared one by one
STUDENT_95 = {5: 2.78, 10: 2.26, 15: 2.14, 20: 2.09, 25: 2.06}  # by the number of runs
RESIDENCY = {"all resident": None, "one resident": 1}
SLOS_MS = (50, 100, 150, 200, 300)
DEVIATIONS_MS = (0, 15, 30, 45, 60, 75)
COPIES = (1, 2, 3, 4, 6)
UNLIKE_WORKERS = {"fast": 1, "slow": 2}  # by how much they are slower
GOAL_LOADS, GOAL_SLOS_MS = (0.5, 1, 2, 4, 8, 16), (50, 100, 150)
GOAL_POLICIES = {"fermata": {}, "sneakpeek": {}, "grouped": {},
                 "sneakpeek, window of 25 ms": {"scheduler": "sneakpeek", "window_ms": 25}}


def parts(runs, size):
    return [runs[i:i + size] for i in range(0, len(runs), size)]


class Figures:
    """`records` with so many seeds for each point."""

    def __init__(self, records, seeds):
        self.records, self.seeds = records, seeds

    def scenario(self, policy, seed, load=LOAD, seconds=SWEEP_S, **how):
        return variants_zoo.scenario(self.records, policy, load, seed=seed, seconds=seconds,
                                     slowed=variants_zoo.slowed(self.records), **how)

    def medians(self, name, points, document=None):
        """By key, over the seeds, of what `document` makes of a seed and of the key's value."""
        document = document or (lambda seed, how: self.scenario(seed=seed, **how))
        runs = variants_zoo.simulate_all(
            [document(seed, how) for how in points.values()
             for seed in range(1, self.seeds + 1)], name)
        return {key: {what: statistics.median(run[what] for run in some) for what in some[0]}
                for key, some in zip(points, parts(runs, self.seeds))}

    def sweep(self, name, xlabel, points, policies=SWEPT, document=None):
        """`points`: what `scenario` takes besides the policy, by the value on the axis."""
        found = self.medians(name, {(p, x): {"policy": p, **how} for p in policies
                                    for x, how in points.items()}, document)
        rows = {p: [found[p, x]["utility"] for x in points] for p in policies}
        print(f"\n{name}: utility by {xlabel}")
        print(plot.table([xlabel, *map(str, points)], [[p, *row] for p, row in rows.items()]))
        record = {"seeds": self.seeds, "x": list(points), "utility": rows}
        print(plot.save(f"variants_{name}", drawings.DRAWN[f"variants_{name}"](record), record))
        return rows

    def by_deadline(self, name, **how):
        self.sweep(name, "SLO, ms", {ms: {"slo_ms": ms, **how} for ms in SLOS_MS})

    def policies(self):
        for residency in RESIDENCY:
            yield from self.policies_with(residency)

    def policies_with(self, residency):
        """Figures 5 and 6."""
        rows = self.medians(residency, {
            (p, short, penalty): {"policy": p, "short_circuit": short, "penalty": penalty,
                                  "resident": RESIDENCY[residency], "seconds": 2 * SWEEP_S}
            for penalty in ("sigmoid", "step") for short in (True, False) for p in POLICIES})
        what = ("utility", "accuracy", "late", "dropped", "short_circuited")
        print(f"\npolicies, {residency}: three windows of work a window (sneakpeek, fermata: "
              "data-aware)")
        print(plot.table(["penalty", "policy", "short circuit", *what],
                         [[penalty, policy, "yes" if short else "no", *(row[w] for w in what)]
                          for (policy, short, penalty), row in rows.items()]))
        name = f"variants_policies_{residency.replace(' ', '_')}"
        document = {"seeds": self.seeds, "rows": [{"policy": p, "short_circuit": s, "penalty": penalty, **row}
                                                  for (p, s, penalty), row in rows.items()]}
        print(plot.save(name, drawings.DRAWN[name](document), document))
        # The claims of section 6.2.
        ours, local = (rows[p, True, "sigmoid"]["utility"] for p in ("sneakpeek", "lo-edf"))
        if ours < 2 * local:
            yield f"figure 5, {residency}: sneakpeek over lo-edf is {ours / local:.2f}, not 2"
        late = rows["sneakpeek", True, "step"]
        if late["late"] + late["dropped"] > 0.03:
            yield (f"figure 6, {residency}: {late['late'] + late['dropped']:.1%} of sneakpeek's "
                   "violate")

    def awareness(self):
        """Figure 8: what looking at the data, and short circuits, are worth to each policy. The
        same seed gives the same requests to every policy and way."""
        seeds, ways = range(1, PAIRED * self.seeds + 1), list(WAYS)
        keys = list(itertools.product(POLICIES, ways))
        runs = variants_zoo.simulate_all(
            [self.scenario(policy, seed) | {"data_aware": WAYS[way][0],
                                            "short_circuit": WAYS[way][1]}
             for policy, way in keys for seed in seeds], "awareness")
        of = {key: [run["utility"] for run in some]
              for key, some in zip(keys, parts(runs, len(seeds)))}
        document = {p: {way: {"utility": statistics.mean(of[p, way]),
                              "added": added(of[p, way], of[p, ways[max(0, i - 1)]])}
                        for i, way in enumerate(ways)} for p in POLICIES}
        print("\nawareness: utility, and what is added with its 95 % interval")
        print(plot.table(
            ["policy", "oblivious", "by looking at the data", "by short circuits besides"],
            [[p, row["oblivious"]["utility"],
              *("{:+.4f} to {:+.4f}".format(*row[way]["added"]) for way in ways[1:])]
             for p, row in document.items()]))
        whole = {"runs": len(seeds), **document}
        print(plot.save("variants_awareness", drawings.DRAWN["variants_awareness"](whole), whole))
        for policy, row in document.items():
            low, high = row["data-aware"]["added"]
            if high < 0:
                yield f"figure 8: looking at the data costs {policy} {low:.4f} to {high:.4f}"

    def goal(self):
        """Ours beside the published policy, and beside what no policy can exceed."""
        slowed, best = variants_zoo.slowed(self.records), variants_zoo.best_accuracy(self.records)
        found = self.medians("goal", {key: key for key in itertools.product(
            GOAL_POLICIES, GOAL_SLOS_MS, GOAL_LOADS)}, lambda seed, how: self.scenario(
                how[0], seed, how[2], 2 * SWEEP_S, slo_ms=how[1]) | GOAL_POLICIES[how[0]])
        rows = [{"slo_ms": slo, "load": load,
                 "bound": variants_zoo.bound(self.records, load, slo, slowed),
                 **{p: found[p, slo, load]["utility"] for p in GOAL_POLICIES}}
                for slo in GOAL_SLOS_MS for load in GOAL_LOADS]
        print(f"\ngoal: utility; the best variants reach {best:.3f} without a deadline")
        print(plot.table(["SLO, load", *GOAL_POLICIES, "no policy exceeds", "fermata / sneakpeek",
                          "possible"],
                         [[f"{r['slo_ms']} ms, {r['load']}x", *(r[p] for p in GOAL_POLICIES),
                           r["bound"], r["fermata"] / r["sneakpeek"], r["bound"] / r["sneakpeek"]]
                          for r in rows]))
        document = {"seeds": self.seeds, "best": best, "rows": rows}
        print(plot.save("variants_goal", drawings.variants_goal(document), document))
        for r in rows:
            yield from variants_zoo.falls_short(
                f"goal, SLO {r['slo_ms']} ms, {r['load']}x", r["fermata"] / r["sneakpeek"], 0,
                r["sneakpeek"], best, r["bound"])


def added(after, before):
    """The 95 % interval of the mean difference of paired runs."""
    differences = [x - y for x, y in zip(after, before)]
    deviation = statistics.stdev(differences) / math.sqrt(len(differences))
    half = STUDENT_95[len(differences)] * deviation
    return statistics.mean(differences) - half, statistics.mean(differences) + half


def wrong_way(where, rows, policies, rises):
    """Says of whom a sweep does not end higher, or lower, than it begins."""
    for policy in policies:
        first, last = rows[policy][0], rows[policy][-1]
        if (last > first) != rises:
            yield f"{where}: {policy} goes from {first:.3f} to {last:.3f}"


def evidence(figures):
    """Figure 9."""
    figures.sweep("evidence", "share of neighbours of the true class",
                  {p: {"accuracy": p} for p in (0.1, 0.3, 0.5, 0.7, 0.9)},
                  policies=("fermata", "sneakpeek", "grouped"))


def deadlines(figures):
    """Figure 11."""
    figures.by_deadline("deadlines")
    figures.by_deadline("deadlines_one_resident", resident=1)
    varied = figures.sweep("deadlines_varied", "standard deviation of SLOs, 150 ms on average",
                           {ms: {"slo_ms": (150, ms)} for ms in DEVIATIONS_MS})
    yield from wrong_way("figure 11b", varied, SWEPT, rises=False)


def copies(figures):
    """Figure 12a."""
    rows = figures.sweep("applications", "applications, 24 requests a window, SLO 200 ms",
                         {len(variants_zoo.NAMES) * n: {
                             "copies": n, "load": 2 * LOAD, "slo_ms": 200} for n in COPIES})
    yield from wrong_way("figure 12a", rows, ("sneakpeek", "grouped"), rises=False)


def rates(figures):
    """Figure 13a."""
    figures.sweep("rates", "requests a window, SLO 200 ms",
                  {n: {"load": LOAD * n / variants_zoo.WINDOW_REQUESTS, "slo_ms": 200}
                   for n in (6, 12, 24, 48)})


def penalties(figures):
    """Figure 14."""
    figures.by_deadline("penalty_step", penalty="step")
    figures.by_deadline("penalty_linear", penalty="linear")


def unlike(figures):
    """Figure 15."""
    for name, faster in (("unlike", 1), ("unlike_tenfold", 10)):
        rows = figures.sweep(
            name, f"accuracies apart by, %; latencies by {faster} times that",
            {p: {"percent": p, "faster": faster} for p in variants_unlike.PERCENT},
            document=lambda seed, how: variants_unlike.scenario(figures.records, seed=seed, **how))
        if faster == 1:
            yield from wrong_way("figure 15", rows, ("sneakpeek", "grouped"), rises=True)
            yield from wrong_way("figure 15", rows, ("lo-priority", "lo-edf"), rises=False)


def workers(figures):
    """Figure 16, and the same with workers of which one is slower."""
    figures.by_deadline("deadlines_two_workers", workers=2, load=2 * LOAD)
    figures.sweep("workers", "workers, 12 requests a window each",
                  {w: {"load": LOAD * w, "workers": w} for w in (1, 2, 4)})
    figures.by_deadline("unlike_workers", types=UNLIKE_WORKERS, load=1.5 * LOAD)
    figures.sweep("unlike_workers_pairs", "pairs of unlike workers, 18 requests a window each",
                  {w: {"load": 1.5 * LOAD * w, "types": UNLIKE_WORKERS, "workers": w}
                   for w in (1, 2)})


PARTS = {"estimates": lambda figures: variants_estimates.figures(figures.records),
         "awareness": Figures.awareness, "goal": Figures.goal, "policies": Figures.policies,
         "evidence": evidence, "deadlines": deadlines, "applications": copies, "rates": rates,
         "penalties": penalties, "unlike": unlike, "workers": workers}


def all_of_them(records, seeds, only=None):
    """What does not hold, of those PARTS."""
    figures, failures = Figures(records, seeds), []
    for part in only or PARTS:
        failures += PARTS[part](figures) or []
    print(f"\nmedians of {seeds} seeds; awareness: {PAIRED * seeds}")
    return failures
