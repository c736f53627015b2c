"""Tables I and II and figures 4, 6 to 10 and 12 of Schemble, in virtual time.

The burst of a traced day for one of the zoo's ensembles, Poisson arrivals for the others.
Everything is paired by seed: the same queries come at the same times to all methods.
"""

import math
import statistics

import numpy

import drawings
import drawings_ensembles
import ensembles_records
import ensembles_simulated as simulated
import plot

PAPER = ("original", "static", "dynamic", "gating", "schemble(ea)", "schemble(t)", "schemble")
GREEDY = ("greedy-edf", "greedy-fifo", "greedy-sjf")
METHODS = (*PAPER, *GREEDY, "fermata(t)", "fermata")
DRAWN = ("fermata", "original", "static", "dynamic", "gating", "schemble(ea)", "schemble")
DEADLINES = (75, 90, 105, 130, 160)
SLO_MS = 105
SCALE = 2.1  # of what the original bears, in the burst
LOADS = (1.7, 2.1, 2.5, 3, 4, 6)
POISSON_LOAD = 1.6
COUNT_LOADS = (1.6, 2.5, 4, 6, 9)
COUNT_DEADLINES = [90, 170]  # ms
HOURS = 24
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 8: 2.365, 10: 2.262}  # 95 %


def available(row, methods):
    needs = {m: simulated.METHODS[m][1] for m in methods}
    return [m for m in methods if needs[m] in (None, "true") or needs[m] in row]


def measure(records, seeds, name, methods, cases):
    """Results by method and case, one a seed. `static` is the subset that is the most accurate
    over all seeds of the case, in hindsight."""
    row = records[name]
    subsets = range(1, 1 << len(row["models"]))
    asked = [(m, case, fixed) for m in available(row, methods) for case in cases
             for fixed in (subsets if m == "static" else (None,))]
    documents = [simulated.scenario(records, name, m, seed=seed, fixed=fixed, **cases[case])
                 for m, case, fixed in asked for seed in range(1, seeds + 1)]
    answered = iter(simulated.run_all(documents))
    found = {}
    for m, case, fixed in asked:
        results = [next(answered) for _ in range(seeds)]
        by_case = found.setdefault(m, {})
        if case not in by_case or in_time(results) > in_time(by_case[case]):
            by_case[case] = results
            if fixed:
                for result in results:
                    result["fixed"] = simulated.subset_name(row, fixed)
    return found


def mean(results, what):
    return statistics.fmean(result[what] for result in results)


def in_time(results):
    """How accurate, of all queries, the answers are that come in time, also where all are served."""
    return statistics.fmean(r["processed_accuracy"] * (1 - r["miss_rate"]) for r in results)


def averaged(by_case, what):
    """Over the cases, by seed."""
    return [statistics.fmean(results) for results in
            zip(*([r[what] for r in results] for results in by_case.values()))]


def interval(differences):
    """The mean and how far its 95 % interval goes."""
    n = len(differences)
    spread = statistics.stdev(differences) if n > 1 else 0
    return statistics.fmean(differences), STUDENT.get(n, 2.8) * spread / math.sqrt(n)


def better(found, ours, other, what="accuracy"):
    """By how much, in points."""
    return interval([100 * (a - b) for a, b in zip(averaged(found[ours], what),
                                                  averaged(found[other], what))])


WHAT = ("accuracy", "miss_rate", "incomplete_rate", "processed_accuracy")


def table(title, found):
    print(f"\n{title}")
    print(plot.table(["method", *WHAT], [
        [m, *(f"{middle:.4f} ±{half:.4f}" for middle, half in
              (interval(averaged(by_case, w)) for w in WHAT))] for m, by_case in found.items()]))


def document(found):
    """By seed."""
    keep = (*WHAT, "mean_ms", "p95_ms", "max_ms")
    return {m: {str(case): {**{w: [round(r[w], 5) for r in results] for w in keep},
                            **({"fixed": results[0]["fixed"]} if m == "static" else {})}
                for case, results in by_case.items()} for m, by_case in found.items()}


def draw(name, found, xlabel, what, methods, **more):
    record = {**more, "results": document(found)}
    if name in drawings.DRAWN:
        print(plot.save(name, drawings.DRAWN[name](record), record))
        return
    figure, axes = plot.axes(xlabel, "", columns=len(what))
    for axis, w in zip(axes, what):
        for m in methods:
            if m in found:
                cases = list(found[m])
                axis.plot(range(len(cases)), [mean(found[m][c], w) for c in cases], label=m,
                          marker="o", linestyle="--" if m.startswith("greedy") else "-")
        axis.set_xticks(range(len(cases)), list(map(str, cases)))
        axis.set_ylabel(w.replace("_", " "))
    axes[0].legend(fontsize=7)
    print(plot.save(name, figure, record))


def claims(found, where):
    """Those of section VIII; each with its figure."""
    missed = {m: statistics.fmean(averaged(found[m], "miss_rate")) for m in found}
    for ours in ("schemble", "fermata"):
        yield (f"{where}: original misses {missed['original']:.1%}, {ours} {missed[ours]:.3%}, "
               f"at most a fifth", missed[ours] <= missed["original"] / 5)
        gain, half = better(found, ours, "original")
        yield (f"{where}: {ours} is {gain:.1f} ±{half:.1f} points over original, at least 30",
               gain >= 30)
        for other in ("greedy-edf", "schemble(t)"):
            gain, half = better(found, ours, other)
            yield f"{where}: {ours} is {gain:.2f} ±{half:.2f} points over {other}", gain - half > 0
        for other in ("static", "schemble(ea)"):
            gain, _ = better(found, ours, other)
            yield f"{where}: {ours} is {gain:.2f} points over {other}, at least -1", gain >= -1
    gain, half = better(found, "fermata", "schemble")
    yield f"{where}: fermata is {gain:.2f} ±{half:.2f} points over schemble", gain >= 0


def day(records, seeds):
    """Table I and figure 6: the burst, and the whole day."""
    name = "scans-averaged"
    methods = (*METHODS, "schemble, true scores", "fermata, true scores")
    found = measure(records, seeds, name, methods, {
        ms: {"slo_ms": ms, "scale": SCALE, "window": simulated.burst()} for ms in DEADLINES})
    table("the burst: mean over deadlines", found)
    draw("ensembles_burst", found, "deadline, ms", WHAT[:3], DRAWN, seeds=seeds)
    draw("ensembles_schedulers", found, "deadline, ms", WHAT[:3], (*GREEDY, "schemble", "fermata"),
         seeds=seeds)
    yield from claims(found, "burst")
    found = measure(records, seeds, name, METHODS, {
        ms: {"slo_ms": ms, "scale": SCALE} for ms in DEADLINES})
    table("table I, the day: mean over deadlines", found)
    draw("ensembles_day", found, "deadline, ms", WHAT[:3], DRAWN, seeds=seeds)


def loads(records, seeds):
    """As figure 19: the burst at other rates."""
    methods = ("original", "static", "greedy-edf", "schemble(t)", "schemble", "fermata(t)",
               "fermata")
    found = measure(records, seeds, "scans-averaged", methods, {
        scale: {"slo_ms": SLO_MS, "scale": scale, "window": simulated.burst()} for scale in LOADS})
    draw("ensembles_loads", found, "load of the burst, of what the original bears", WHAT[:3],
         methods, seeds=seeds)
    by_load(f"the burst at other loads, deadline {SLO_MS} ms", found, (
        ("schemble", "greedy-edf"), ("fermata", "greedy-edf"), ("fermata", "schemble")))


def by_load(title, found, pairs):
    loads = list(next(iter(found.values())))
    print(f"\n{title}: accuracy, and misses")
    print(plot.table(["method", *map(str, loads)], [
        [m, *(f"{mean(r[c], 'accuracy'):.4f} {mean(r[c], 'miss_rate'):.4f}" for c in loads)]
        for m, r in found.items()]))
    for ours, other in pairs:
        gains = [better({m: {c: found[m][c]} for m in (ours, other)}, ours, other)
                 for c in loads]
        print(f"points of {ours} over {other}:", ", ".join(f"{g:.2f} ±{h:.2f}" for g, h in gains))


def poisson(records, seeds, name, what, cases):
    found = measure(records, seeds, name, METHODS, {
        label: {"load": POISSON_LOAD, **how} for label, how in cases.items()})
    table(f"table I, {name}: mean over {what}", found)
    draw(f"ensembles_{name}", found, what, WHAT[:3], DRAWN, seeds=seeds)
    if "schemble" in found:
        yield from claims(found, name)


def serve_all(records, seeds):
    """Table II."""
    for name, how in (("scans-averaged", {"scale": SCALE}),
                      ("scans-stacked", {"load": POISSON_LOAD}),
                      ("count-weighted", {"load": POISSON_LOAD})):
        if name not in records or how.get("scale") and simulated.trace() is None:
            continue
        found = measure(records, seeds, name, (*PAPER, "fermata", "schemble, true scores"), {
            "all": {"slo_ms": SLO_MS, "serve_all": True, **how}})
        print(f"\ntable II, {name}: everything is served")
        print(plot.table(["method", "accuracy", "mean ms", "p95 ms", "max ms"], [
            [m, *(mean(r["all"], w)
                  for w in ("processed_accuracy", "mean_ms", "p95_ms", "max_ms"))]
            for m, r in found.items()]))
        record = {"seeds": seeds, "results": document(found)}
        print(plot.save(f"ensembles_serve_all_{name}", drawings.ensembles_serve_all(record), record))
        if "schemble" not in found:
            continue
        true = mean(found["schemble, true scores"]["all"], "processed_accuracy")
        for ours in ("schemble", "fermata"):
            ratio = mean(found["original"]["all"], "p95_ms") / mean(found[ours]["all"], "p95_ms")
            accuracy = mean(found[ours]["all"], "processed_accuracy")
            least = min(0.97, true - 0.02)
            lasts = f"the burst lasts {numpy.ptp(simulated.burst())} s" if "scale" in how else ""
            yield (f"serve-all, {name}: p95 of {ours} is {ratio:.0f} times lower than original's; "
                   f"{lasts or 'no burst'}", not lasts or ratio >= 100)
            yield (f"serve-all, {name}: {ours} is right in {accuracy:.4f}, with true scores "
                   f"schemble in {true:.4f}", accuracy >= least)


def scores(records, _):
    """Figure 4: how difficult the test data are, and what a subset is right about by bin."""
    name = "scans-averaged"
    row, about = records[name], ensembles_records.profile(name)
    bins = numpy.array(simulated.bins_of(about, "true", row["true"]))
    right = numpy.array([[int(c) for c in digits] for digits in row["correct"]])
    by_bin = [right[bins == b].mean(0).tolist() for b in range(bins.max() + 1)]
    correlation = {n: float(numpy.corrcoef(r["true"], r["difficulty"])[0, 1])
                   for n, r in records.items() if "difficulty" in r}
    shares = {}
    for n, r in records.items():
        every = numpy.array([[int(d[(1 << k) - 1]) for k in range(len(r["models"]))]
                             for d in r["correct"]]).sum(1)
        shares[n] = {"any": float((every == len(r["models"])).mean()),
                     "none": float((every == 0).mean())}
    print(f"\nfigure 4: correlation of predicted and true scores {correlation}; queries that any "
          f"model, and none, answers as the ensemble {shares}")
    kept = {"accuracy_by_bin": by_bin, "shares": shares, "correlation": correlation}
    print(plot.save("ensembles_scores", drawings.DRAWN["ensembles_scores"](kept), kept))
    for n, r in records.items():
        if "difficulty" in r["networks_ms"]:
            share = r["networks_ms"]["difficulty"] / sum(m["ms"]["1"] for m in r["models"])
            yield (f"{n}: predicting scores takes {share:.1%} of the ensemble's time, below 7 %",
                   share < 0.07)


def segments(records, seeds):
    """Figures 9 and 14: everything served, and with rejection, hour by hour."""
    seeds = min(seeds, 2)
    edges = numpy.linspace(0, len(simulated.trace()), HOURS + 1).round().astype(int).tolist()
    kept = {"seeds": seeds} | {mode: document(measure(records, seeds, "scans-averaged", drawings_ensembles.METHODS, {
        hour: {"slo_ms": SLO_MS, "scale": SCALE, "serve_all": mode == "serve-all", "window": edges[hour:hour + 2]} for hour in range(HOURS)}))
        for mode in ("serve-all", "reject")}
    print(plot.save("ensembles_segments", drawings.DRAWN["ensembles_segments"](kept), kept))


def resampled(row, targets, random):
    """Examples whose true scores come near to the targets."""
    order = numpy.argsort(row["true"])
    at = numpy.searchsorted(numpy.sort(row["true"]), targets)
    near = numpy.clip(at + random.integers(-5, 6, len(targets)), 0, len(order) - 1)
    return order[near].tolist()


def distributions(records, seeds):
    """Figure 10. Normal: of the score; gamma: of the normalised distance x, score = x / (1 + x)."""
    seeds = min(seeds, 3)
    row, random, count = records["scans-averaged"], numpy.random.default_rng(1), 2000
    methods = ("original", "gating", "schemble(ea)", "schemble(t)", "schemble", "fermata(t)",
               "fermata")
    drawn = {"normal": {m: random.normal(m, 0.03, count) for m in (0.1, 0.3, 0.5, 0.7, 0.8)},
             "gamma": {m: 1 - 1 / (1 + random.gamma(m, 1, count)) for m in (0.5, 1, 2, 3)}}
    for kind, by_mean in drawn.items():
        found = measure(records, seeds, "scans-averaged", methods, {
            m: {"slo_ms": SLO_MS, "load": SCALE, "which": resampled(row, targets, random)}
            for m, targets in by_mean.items()})
        table(f"figure 10, {kind}: mean over means", found)
        draw(f"ensembles_{kind}", found, f"mean of the {kind} distribution",
             ("accuracy", "processed_accuracy"), methods, seeds=seeds)


def stacked(records, seeds):
    """Table I and figure 8."""
    yield from poisson(records, seeds, "scans-stacked", "deadline, ms",
                       {ms: {"slo_ms": ms} for ms in DEADLINES})


def counts(records, seeds):
    """Table I and figure 7."""
    yield from poisson(records, seeds, "count-weighted", "mean of random deadlines, ms",
                       {ms: {"slo_ms": {"uniform": [ms - 40, ms + 40]}} for ms in (105, 130, 160)})


def count_loads(records, seeds):
    """The counts at loads at which not everybody can have all models."""
    methods = ("original", "static", "greedy-edf", "schemble(t)", "schemble", "fermata(t)",
               "fermata", "fermata, true scores")
    found = measure(records, seeds, "count-weighted", methods, {
        load: {"slo_ms": {"uniform": COUNT_DEADLINES}, "load": load} for load in COUNT_LOADS})
    draw("ensembles_count_loads", found, "load, of what the original bears", WHAT[:3], methods,
         seeds=seeds)
    by_load("count-weighted by load", found, (
        ("fermata", "fermata(t)"), ("schemble", "schemble(t)"), ("fermata", "schemble"),
        ("fermata", "static"), ("fermata", "greedy-edf"), ("fermata, true scores", "fermata")))


PARTS = {part.__name__: part for part in (scores, day, loads, segments, stacked, counts,
                                         count_loads, serve_all, distributions)}
TRACED = ("day", "loads", "segments")


def all_of_them(records, seeds, only=None):
    """Every claim, with whether it holds."""
    for name in only or PARTS:
        if name in TRACED and simulated.trace() is None:
            print(f"{name}: left out, there is no trace at {simulated.TRACE}")
            continue
        yield from PARTS[name](records, seeds) or ()
