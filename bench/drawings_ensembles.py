"""Plots of ensembles, each from its record alone (drawings.py)."""

import statistics

import plot
import record

SEGMENTS = (("serve-all", "mean_ms", "everything served: mean latency, ms"),
            ("serve-all", "processed_accuracy", "everything served: right answers"),
            ("reject", "accuracy", "with rejections: right, on time"), ("reject", "miss_rate", "with rejections: missed"))
TRUSTED_LAG_MS = 30
METHODS = ("original", "gating", "schemble", "fermata")
COLUMNS = plot.COLOURS  # of what is no policy: ensembles and subsets


def random_ensembles(found):
    """The default less `schemble`, each scenario a point."""
    gains = sorted(statistics.median(both["fermata"]) - statistics.median(both["schemble"]) for both in found["scenarios"].values())
    figure, axis = plot.axes("random ensembles, by what the default gains", "right answers, points over schemble", width=6)
    axis.plot(range(1, len(gains) + 1), gains, ".", color=plot.BLUE)
    axis.axhline(0, color=plot.NEUTRAL, linewidth=0.8)
    below = sum(gain < 0 for gain in gains)
    plot.says(figure, f"On {len(gains) - below} of {len(gains)} random ensembles the default answers at least as many queries right as `schemble`; "
                      f"where it answers fewer, by at most {max(0, -gains[0]):.2f} points.")
    return figure


def trusted(rounds):
    return [each for each in rounds if each["lag_ms"] <= TRUSTED_LAG_MS]


def median(rounds, what):
    return statistics.median(each[what] for each in rounds)


def served(found):
    figure, axes = plot.axes("", "", columns=2)
    loads = sorted({row["load"] for row in found["rows"]})
    policies = list(dict.fromkeys(row["policy"] for row in found["rows"]))
    for axis, what, label in ((axes[0], "accuracy", "right, on time"), (axes[1], "miss_rate", "missed")):
        for load, full, shift in zip(loads, ("full", "none"), (-0.12, 0.12)):
            for i, policy in enumerate(policies):
                rounds = trusted(next(r["rounds"] for r in found["rows"] if (r["load"], r["policy"]) == (load, policy)))
                values = [each[what] for each in rounds]
                axis.errorbar([i + shift], [median(rounds, what)],
                              [[median(rounds, what) - min(values)], [max(values) - median(rounds, what)]], fmt="o", markersize=6, capsize=3,
                              color=plot.STYLES[policy][0], fillstyle=full, label=f"{load} times the original's capacity" if i == 0 else None)
        axis.set(ylabel=f"{label}, share of the queries", ylim=(-0.03, 1.03))
        axis.set_xticks(range(len(policies)), policies, rotation=30, ha="right")
    plot.legend(axes[1])
    right = {(r["load"], r["policy"]): median(trusted(r["rounds"]), "accuracy") for r in found["rows"]}
    plot.says(figure, f"Served at {loads[-1]} times what the original sustains, the default answers {right[loads[-1], 'fermata']:.2f} of the queries right "
                      f"and on time, `schemble` {right[loads[-1], 'schemble']:.2f}, the best fixed subset {right[loads[-1], 'static']:.2f}.")
    return figure


def segments(found):
    figure, axes = plot.axes("hour of the day", "", columns=4, width=3.8)
    for axis, (mode, what, label) in zip(axes, SEGMENTS):
        for method in METHODS:
            hours = found[mode][method]
            axis.plot([int(hour) for hour in hours], [statistics.mean(of[what]) for of in hours.values()], **{**plot.style(method), "linestyle": "--" if method == "gating" else "-"})
        axis.set_ylabel(label)
    axes[0].set_yscale("log")
    plot.legend(axes[3])
    plot.says(figure, "In the rush hours the original and gating fall behind by up to minutes or miss most queries; the default and `schemble` do neither.")
    return figure


def subset_name(models, subset):
    return "+".join(model["name"].replace("scans-", "") for i, model in enumerate(models) if subset >> i & 1)


def scores(found):
    """How difficult the test data are (of the ensembles' own record), and what a subset is right about by bin."""
    ensembles = record.read("ensembles_records")
    figure, axes = plot.axes("", "", columns=2, width=5.6, height=4.2)
    for colour, (name, its) in zip(COLUMNS, ((n, its) for n, its in ensembles.items() if "true" in its)):
        axes[0].hist(its["true"], bins=25, range=(0, 1), histtype="step", density=True, label=name, color=colour)
    axes[0].set(xlabel="discrepancy score of a query", ylabel="density")
    models = ensembles["scans-averaged"]["models"]
    for subset, colour in zip(range(1, 1 << len(models)), COLUMNS):
        axes[1].plot(range(1, len(found["accuracy_by_bin"]) + 1), [shares[subset - 1] for shares in found["accuracy_by_bin"]],
                     "o-", markersize=4, color=colour, label=subset_name(models, subset))
    axes[1].set(xlabel="bin of the score, easiest first", ylabel="share answered as by all")
    for axis in axes:
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3, fontsize=7)
    plot.says(figure, "In the seven easiest of ten bins any subset answers as the whole ensemble does; in the hardest one model alone does so half of the time.")
    return figure


DRAWN = {"ensembles_random": random_ensembles, "ensembles_random_more": random_ensembles, "ensembles_served": served,
         "ensembles_segments": segments, "ensembles_scores": scores}
