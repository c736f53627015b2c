"""More plots that are drawn from a record alone (drawings.py): how long decisions take, policies over many pools, and served
next to simulated runs.
"""

import math
import statistics

import plot

BASELINE = 1  # where a ratio says that both are level
SIMPLE = ["deferred", "deferred-prefix", "clockwork", "eager", "edf"]
LEAST = 0.99  # asked of variants_grid


def over_others(found, axis, other=None):
    """Sorted ratios of the default over `other`, or over the best other policy of each case."""
    best = [m["fermata"] / (m.get(other, 0) if other else max(r for p, r in m.items() if p != "fermata"))
            for m in found.values() if (m.get(other) if other else max(r for p, r in m.items() if p != "fermata"))]
    axis.plot(sorted(best), ".", label=other or "the best other policy of each case")
    return best


def policies_suite(found, other="clockwork"):
    figure, axis = plot.axes("case, by ratio", "goodput of fermata / other", width=7)
    best = over_others(found.get("cases") or found["pools"], axis)
    over_others(found.get("cases") or found["pools"], axis, other)
    axis.axhline(BASELINE, color=plot.NEUTRAL)
    plot.legend(axis)
    plot.says(figure, f"The default has {statistics.geometric_mean(best):.2f} times the best other policy's goodput on average, {min(best):.2f} times at worst.")
    return figure


def policies_changing(found):
    documents, lost = found["documents"].values(), found["summary"]["mean_loss"]
    figure, axis = plot.axes("lost by the best fixed row", "lost")
    for which, label in ((lambda own: own["tuned"], "rules chosen while it runs"), (lambda own: own["rows"]["fermata"], "the default's own rules")):
        axis.plot([own["best"] for own in documents], [which(own) for own in documents], "o", markersize=4, label=label)
    top = max(own["best"] for own in documents)
    axis.plot([0, top], [0, top], color=plot.NEUTRAL, linewidth=0.8)
    plot.legend(axis)
    plot.says(figure, f"After a change the tuned default loses {lost['tuned']:.1%}, the best fixed row {lost['best row']:.1%}.")
    return figure


def policies_ablation(found):
    sets = found["sets"]
    figure, axes = plot.axes("", "", columns=len(sets), width=4.2, height=5.5)
    for axis, (name, rows) in zip(axes if len(sets) > 1 else [axes], sets.items()):
        order = sorted((r["to_default"], rule, r) for rule, r in rows.items() if rule != "fermata")[::-1]
        for i, (mean, _, r) in enumerate(order):
            axis.plot([r["least"], r["most"]], [i, i], color=plot.NEUTRAL, linewidth=1)
            axis.plot([mean], [i], "o", color=plot.COLOURS[0], markersize=4)
        axis.axvline(BASELINE, color=plot.NEUTRAL)
        axis.set_yticks(range(len(order)), [rule for _, rule, _ in order], fontsize=6)
        axis.set(xlabel=f"{name}: without the rule / default", xscale="log")
    plot.says(figure, "Goodput without each rule: left of the line the rule earns something (dots: mean, lines: least and most).")
    return figure


def decisions(found):
    rows, must = found["rows"], found["must_us"]
    figure, axis = plot.axes("workers", "one decision, p50, µs of a core")
    for number, kind in enumerate(("variants", "ensembles")):
        own = [r for r in rows if r["kind"] == kind]
        workers = sorted({r["workers"] for r in own})
        axis.plot([r["workers"] for r in own], [r["p50_us"] for r in own], ".", color=f"C{number}")
        axis.plot(workers, [statistics.median(r["p50_us"] for r in own if r["workers"] == w) for w in workers], color=f"C{number}", label=kind)
    axis.axhline(must, color=plot.NEUTRAL, linestyle=":", label="target")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    plot.legend(axis)
    plot.says(figure, f"A decision takes at most {max(r['p50_us'] for r in rows):.0f} µs, up to {max(r['workers'] for r in rows)} workers.")
    return figure


def mlserver(found):
    results = found["median"]
    figure, axes = plot.axes("", "", columns=2, width=5.5)
    for axis, key, label in zip(axes, ("rps", "p50_ms"), ("requests a second", "p50, ms")):
        for offset, protocol in ((-0.2, "rest"), (0.2, "grpc")):
            values = [each[protocol][key] for each in results.values()]
            bars = axis.barh([n + offset for n in range(len(results))], values, 0.38, label=protocol)
            axis.bar_label(bars, [f"{v:,.0f}" if v >= 100 else f"{v:.2f}" for v in values], padding=3)
        axis.set_yticks(range(len(results)), list(results))
        axis.invert_yaxis()
        axis.set_xlabel(label)
        axis.margins(x=0.2)
    plot.legend(axes[-1])
    over = found["fermata_over_best_mlserver"]
    plot.says(figure, f"Fermata answers {over['rest']['rps']:.0f} times as many requests over REST and {over['grpc']['rps']:.0f} times as many over gRPC "
                      "as the best of three MLServer setups.")
    return figure


def served_as_simulated(found):
    figure, axis = plot.axes("", "served over simulated", width=7)
    ratios = {key: [s[key]["served"] / s[key]["simulated"] for s in found["scenarios"].values()] for key in ("on_time_rps", "p99_ms")}
    for offset, (key, label) in zip((-0.2, 0.2), (("on_time_rps", "on time a second"), ("p99_ms", "p99 latency"))):
        axis.bar([p + offset for p in range(len(ratios[key]))], ratios[key], 0.4, label=label)
    axis.axhspan(0.95, 1.05, color=plot.NEUTRAL, alpha=0.3, label="within 5 %")
    axis.set_ylim(0.8, 1.2)
    axis.set_xticks(range(len(found["scenarios"])), [name.replace(", ", "\n") for name in found["scenarios"]], fontsize=7)
    plot.legend(axis)
    off = max(abs(r - 1) for r in ratios["on_time_rps"])
    plot.says(figure, f"Served and simulated, these scenarios answer as many requests on time, within {off:.2%}.")
    return figure


def streams_plan(found):
    figure, axes = plot.axes("workers x clients", "", columns=2, height=4)
    for axis, what, label in zip(axes, ("ratio_mean", "mean_ms"), ("objective by the optimum's (by the other's, right of it)", "processor time of a plan, ms")):
        for solver, marker in (("best", "o"), ("search", "^"), ("annealing", "s"), ("exact", "x")):
            mine = [r for r in found["rows"] if solver in r]
            axis.plot([f"{r['workers']}x{r['clients']}, {r['load']}" for r in mine], [r[solver][what] for r in mine], marker, label=solver)
        axis.set_ylabel(label)
        axis.tick_params("x", rotation=80, labelsize=7)
    axes[1].set_yscale("log")
    plot.legend(axes[-1])
    told = found["summary"]
    plot.says(figure, f"The default's plans are the best ones; the published annealing serves fewer clients in {told['annealing']['fewer_served']} of {told['problems']}.")
    return figure


def variants_estimates(found):
    found = {name: its for name, its in found.items() if not name.startswith("drawn")}
    figure, axis = plot.axes("", "mean error of estimated accuracy", width=8)
    for i, what in enumerate(next(iter(found.values()))):
        axis.bar([p + i / 9 for p in range(len(found))], [its[what] for its in found.values()], 1 / 9, label=what, color=f"C{i}")
    axis.set_xticks([p + 0.35 for p in range(len(found))], list(found))
    plot.legend(axis)
    plot.says(figure, "Five neighbours estimate a variant's accuracy better than the profile or one neighbour does.")
    return figure


def variants_grid(found):
    points = found["points"]
    penalties, rates = (list(dict.fromkeys(p[key] for p in points)) for key in ("penalty", "rate"))
    figure, axes = plot.axes("workers", "default over the best other policy", width=3.2, columns=len(penalties))
    for axis, penalty in zip(axes if len(penalties) > 1 else [axes], penalties):
        for rate in rates:
            own = [p for p in points if p["penalty"] == penalty and p["rate"] == rate]
            axis.plot([p["workers"] for p in own], [ratio(p["utility"]) for p in own], "o-", label=f"{rate:g}/s a worker")
        axis.axhline(LEAST, color=plot.NEUTRAL, linestyle=":")
        axis.set_xscale("log", base=2)
        axis.set_title(f"penalty: {penalty}")
    plot.legend(figure.axes[-1])
    plot.says(figure, f"The default has at least {found['summary']['least']:.4f} of the best other policy's utility (dotted: the target).")
    return figure


def policies_tuned(found):
    pools, told = found["pools"].values(), found["summary"]
    figure, axis = plot.axes("pools, by ratio", "goodput by the best simple policy's")
    for which, label in (("tuned", "rules chosen while it runs"), ("fixed", "its own rules")):
        ratios = sorted(m[which] / max(m[p] for p in SIMPLE) for m in pools)
        axis.plot(range(1, len(ratios) + 1), ratios, label=label)
    axis.axhline(BASELINE, color=plot.NEUTRAL, linewidth=0.8)
    axis.set_yscale("log")
    plot.legend(axis)
    plot.says(figure, f"With rules that it chooses the default has {told['tuned']['geometric_mean']:.2f} times the goodput of the best simple policy, "
                      f"with its own {told['fixed']['geometric_mean']:.2f} times.")
    return figure


def ratio(utilities):
    other = max(u for p, u in utilities.items() if p != "fermata")
    return utilities["fermata"] / other if other > 0 else math.inf


DRAWN = {"policies_suite": policies_suite, **{f"policies_pools{draw}": policies_suite for draw in ("", "_fresh", "_anew")},
         "policies_changing": policies_changing, "policies_tuned": policies_tuned, "policies_ablation": policies_ablation, "decisions": decisions,
         "mlserver": mlserver, "served-as-simulated": served_as_simulated, "streams_plan": streams_plan, "variants_estimates": variants_estimates,
         "variants_grid": variants_grid}
