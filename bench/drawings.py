"""Plots that are drawn from a record alone: each takes what bench/results/NAME.json holds and returns the figure.

A benchmark draws with the function of its record; `pictures.py` draws all of them again.
"""

import functools
import statistics

import drawings_ensembles
import drawings_more
import drawings_papers
import drawings_times
import plot
import record
from drawings_times import spread

ROWS = {"resnet50": "ResNet50,\n8 workers", "inception_resnet_v2": "InceptionResNetV2,\n8 workers",
        "zoo_1080ti": "35 models,\n64 workers", "zoo_a100": "35 models\n(A100), 64", "densenet121": "16 DenseNet121,\n64 workers"}


def policies_of(record):
    return [p for p in plot.STYLES if p in record]


def policies_table(found):
    figure, axis = plot.axes("", "goodput, share of the best policy", width=8.6)
    names = [name for name in ROWS if name in found]
    for policy in policies_of(found[names[0]]):
        ratios = [found[n][policy] / max(found[n][p] for p in policies_of(found[n])) for n in names]
        axis.plot(range(len(names)), ratios, "o", color=plot.style(policy)["color"], label=policy,
                  markersize=9 if policy == "fermata" else 6, fillstyle="none" if "-" in policy else "full")
    axis.set_xticks(range(len(names)), [ROWS[n] for n in names])
    axis.set_ylim(0.4, 1.04)
    plot.legend(axis)
    plot.says(figure, "The default reaches the best goodput on four of five workloads and 0.997 of it on the fifth.")
    return figure


def policies_overload(found):
    figure, axis = plot.axes("offered load, multiples of the peak", "on time, requests/s", width=6.6)
    for policy, points in found["curves"].items():
        axis.plot([p["offered_of_peak"] for p in points], [p["on_time_rps"] for p in points], **plot.style(policy),
                  linewidth=2.4 if policy == "fermata" else 1.3)
    axis.axhline(found["peak_rps"], color=plot.NEUTRAL, linestyle=":", linewidth=1)
    axis.text(3.0, found["peak_rps"] - 80, "goodput of the default", va="top", ha="right", fontsize=8, color=plot.NEUTRAL)
    axis.set_ylim(0)
    plot.legend(axis)
    plot.says(figure, "Offered up to three times its peak, the default answers more on time, not less.")
    return figure


def policies_claims(found):
    """Each figure as a share of its target, so that all stand on one axis."""
    figure, axis = plot.axes("", "", width=9, height=7.5)
    rows = [(f"{claim}: {key}", figures[key], most) for key, most in found["must"].items()
            for claim, figures in found["claims"].items() if key in figures]
    for y, (_, value, most) in enumerate(reversed(rows)):
        share = value / most if most else float(value > 1e-9) * 2
        axis.plot([0, share], [y, y], color=plot.GREY, linewidth=1)
        axis.plot([share], [y], "o", color=plot.RED if value > most + 1e-9 else plot.BLUE)
    axis.axvline(1, color=plot.NEUTRAL, linestyle=":")
    axis.set_yticks(range(len(rows)), [name for name, *_ in reversed(rows)], fontsize=6)
    axis.set_xlabel("found / target (left of the line: reached; a target of none: 0 or 2)")
    missed = sum(value > most + 1e-9 for _, value, most in rows)
    plot.says(figure, f"The default reaches {len(rows) - missed} of {len(rows)} targets; the red ones are missed.")
    return figure


def ensembles_burst(found):
    methods = [m for m in ("original", "static", "gating", "schemble", "greedy-edf", "fermata") if m in found["results"]]
    figure, axes = plot.axes("deadline, ms", "", columns=2, width=4.6)
    for axis in axes:
        for method in methods:
            cases = found["results"][method]
            runs = [cases[c]["accuracy"] for c in cases]
            middle = [statistics.mean(r) for r in runs]
            axis.errorbar([float(c) for c in cases], middle, [[m - min(r) for m, r in zip(middle, runs)],
                                                              [max(r) - m for m, r in zip(middle, runs)]],
                          marker="o", markersize=4, capsize=2, **plot.style(method))
    axes[0].set_ylabel("right answers, share of all queries")
    axes[0].set_ylim(0.3, 1.01)
    axes[1].set_ylim(0.945, 1.0)
    axes[1].set_title("the best of them, closer", fontsize=9)
    plot.legend(axes[1])
    plot.says(figure, "In the burst of a day, the default answers most queries right at every deadline (least and most of five seeds).")
    return figure


def ensembles_by_case(found, xlabel, methods, says):
    """Right answers and misses of methods by case, with the least and the most of the seeds."""
    figure, axes = plot.axes(xlabel, "", columns=2, width=4.6)
    for axis, (what, label) in zip(axes, (("accuracy", "right answers, share of all queries"), ("miss_rate", "missed, share of all queries"))):
        for method in (m for m in methods if m in found["results"]):
            cases = found["results"][method]
            spread(axis, range(len(cases)), [cases[c][what] for c in cases], **plot.style(method))
            axis.set_xticks(range(len(cases)), list(cases))
        axis.set_ylabel(label)
    plot.legend(axes[-1])
    plot.says(figure, says)
    return figure


ALL = ("original", "static", "dynamic", "gating", "greedy-edf", "schemble(t)", "schemble", "fermata(t)", "fermata")
SPREAD = " (least and most of the seeds; (t): no predictor)."
ENSEMBLES = {
    "ensembles_count_loads": ("load, multiples of what the original sustains", (*ALL, "fermata, true scores"),
                              "Where difficulty decides, the default and its predictor keep most answers right"),
    "ensembles_gamma": ("mean of the scores' gamma distribution", ALL, "The default loses least as queries become harder"),
    "ensembles_normal": ("mean of the scores' normal distribution", ALL, "The default loses least as queries become harder"),
    "ensembles_scans-stacked": ("deadline, ms", ALL, "The stacked ensemble in the burst: the default answers most right at every deadline"),
    "ensembles_schedulers": ("deadline, ms", ("greedy-edf", "greedy-fifo", "greedy-sjf", "schemble", "fermata", "fermata, true scores"),
                             "Of the schedulers in the burst, the default answers most right at every deadline")}


def ensembles_serve_all(found):
    figure, axis = plot.axes("mean latency, ms", "accuracy", width=6.2)
    for method, cases in found["results"].items():
        own = plot.style(method)
        axis.plot([statistics.mean(cases["all"]["mean_ms"])], [statistics.mean(cases["all"]["processed_accuracy"])], markersize=8,
                  marker={"-": "o", "--": "s", ":": "^"}.get(own["linestyle"], "D"), linestyle="", color=own["color"],
                  fillstyle="full" if own["linestyle"] == "-" else "none", label=method)
    axis.set_xscale("log")
    plot.legend(axis)
    plot.says(figure, "If no query may be rejected, the default is nearest to the original at a low latency.")
    return figure


def variants_swept(found, xlabel, says):
    figure, axis = plot.axes(xlabel, "utility", width=5.8)
    for policy, values in found["utility"].items():
        axis.plot(range(len(values)), values, marker="o", markersize=4, **plot.style(policy))
    axis.set_xticks(range(len(found["x"])), [str(x) for x in found["x"]])
    plot.legend(axis)
    plot.says(figure, says)
    return figure


SHORT = "SLOs shorter than the rivals' window decide"
VARIANTS = {
    "variants_deadlines": ("SLO, ms", f"{SHORT}."), "variants_deadlines_one_resident": ("SLO, ms", f"{SHORT}; a worker holds one variant."),
    "variants_deadlines_two_workers": ("SLO, ms", f"{SHORT}, on two workers too."),
    "variants_deadlines_varied": ("standard deviation of SLOs of 150 ms, ms", "Where SLOs vary, policies that plan by windows lose."),
    "variants_penalty_linear": ("SLO, ms", f"{SHORT} under a linear penalty."), "variants_penalty_step": ("SLO, ms", f"{SHORT} under a step."),
    "variants_unlike_workers": ("SLO, ms", f"{SHORT}, one of two workers being half as fast."),
    "variants_unlike_workers_pairs": ("pairs of a fast and a slow worker", "With more heterogeneous workers and as much more load, the default keeps its utility."),
    "variants_workers": ("workers", "With more workers and as much more load, the default keeps its utility."),
    "variants_applications": ("services, 24 requests a window, SLO 200 ms", "The default loses nothing with more services; per-request choice does."),
    "variants_rates": ("requests a window, SLO 200 ms", "The default loses least as load grows."),
    "variants_unlike": ("accuracies and latencies apart by, %", "Where variants differ more, choosing among them is worth more."),
    "variants_unlike_tenfold": ("accuracies apart by, %; latencies by ten times that", "Where latencies differ most, all policies gain."),
    "variants_evidence": ("share of neighbours of the true class", "Better evidence is worth more, and bad evidence costs little.")}


def by_load(axis, rows, slo, least):
    """The axis of one SLO, its loads doubling, and what no policy exceeds at each."""
    loads = [r["load"] for r in rows]
    axis.plot(loads, [r["bound"] for r in rows], ":", color=plot.NEUTRAL, label="no policy exceeds")
    axis.set_xscale("log", base=2)
    axis.set_xticks(loads, [f"{load:g}" for load in loads])
    axis.set_ylim(least, 1)
    axis.set_title(f"SLO {slo} ms")


def variants_served(found):
    slos = sorted({r["slo_ms"] for r in found["rows"]})
    methods = [m for m in ("grouped", "lo-edf", "sneakpeek", "sneakpeek, window of 25 ms", "fermata")
               if any(r["method"] == m for r in found["rows"])]
    figure, axes = plot.axes("load (1: the best variants sustain it)", "utility", columns=len(slos), width=3.6)
    for axis, slo in zip(axes, slos):
        for method in methods:
            own = [r for r in found["rows"] if r["slo_ms"] == slo and r["method"] == method]
            if own:
                spread(axis, [r["load"] for r in own], [[x["utility"] for x in r["rounds"]] for r in own], **plot.style(method))
        by_load(axis, [r for r in found["goal"] if r["slo_ms"] == slo], slo, least=0)
    plot.legend(axes[-1])
    plot.says(figure, "The default has the highest utility at tight SLOs: 1.00 to 1.16 times that of SneakPeek's best window, 25 ms (run at 50 ms only).")
    return figure


def streams_served(found):
    traces, methods = ("lte", "wifi", "synthetic"), ("fermata", "middle", "high", "low", "DNN alone")
    figure, axes = plot.axes("", "", columns=2, width=4.8)
    for axis, what, label in zip(axes, ("miss_rate", "accuracy"), ("frames missed, %", "accuracy of answers on time")):
        for k, method in enumerate(methods):
            for t, trace in enumerate(traces):
                values = sorted((100 if what == "miss_rate" else 1) * r[what] for r in found["rows"]
                                if r["method"] == method and r["trace"] == trace and r[what] is not None)
                if not values:
                    continue
                x = t + 0.14 * (k - 2)
                axis.plot([x, x], [values[0], values[-1]], color=plot.STYLES[method][0], linewidth=1, alpha=0.6)
                axis.plot([x], [statistics.median(values)], "o", color=plot.STYLES[method][0],
                          label=method if t == 0 else None)
        axis.set_xticks(range(len(traces)), ["LTE", "WiFi", "synthetic"])
        axis.set_ylabel(label)
    axes[0].set_yscale("symlog", linthresh=1)
    axes[0].set_ylim(-0.1, 120)
    axes[0].set_yticks([0, 1, 10, 100], ["0", "1", "10", "100"])
    plot.legend(axes[1])
    plot.says(figure, "Clients that are told their size miss few frames and are more accurate than the low DNN (medians; lines: all settings).")
    return figure


def pipelines(found):
    """Averages by workload; found is one pipeline's record."""
    workloads = ("bursty", "steady_low", "steady_high", "fluctuating")
    methods = [m for m in ("IPA", "IPA ahead", "FA2-low", "FA2-high", "RIM", "SlackFit") if f"bursty {m}" in found]
    figure, axes = plot.axes("", "", columns=3, width=3.6)
    for axis, field, label in zip(axes, ("accuracy", "cost", "attainment"), ("accuracy", "cost, cores", "answered within the SLA, share")):
        for k, method in enumerate(methods):
            means = [found[f"{w} {method}"]["mean"][field] for w in workloads]
            axis.errorbar([i + 0.12 * (k - 2.5) for i in range(4)], [m for m, _ in means], [half for _, half in means],
                          fmt="o", color=plot.STYLES[method][0], label=method, capsize=2,
                          fillstyle="none" if method == "IPA ahead" else "full")
        axis.set_xticks(range(4), ["bursty", "steady,\nlow", "steady,\nhigh", "fluctu-\nating"])
        axis.set_ylabel(label)
    axes[1].set_yscale("log")
    plot.legend(axes[2])
    plot.says(figure, "In accuracy and cost, IPA's planner lies between the cheapest and the most accurate fixed variants, or equals the latter (mean, 95 % interval).")
    return figure


def scheduler(found):
    figure, (left, right) = plot.axes("", "", columns=2, width=5.4)
    colours = dict(zip(found["lag"], (plot.BLUE, plot.ORANGE, plot.GREEN, plot.PINK)))
    for threads, rows in found["lag"].items():
        for share, line in (("p50", "-"), ("p99", ":")):
            left.plot([row["handled_rps"] / 1e6 for row in rows], [row[f"lag_{share}_us"] for row in rows], line, marker="o",
                      color=colours[threads], label=f"{threads} model thread{'s' * (threads != '1')}, {share}")
    left.axhline(50, color=plot.NEUTRAL, linestyle="--", linewidth=1, label="bound on the median")
    left.set(xlabel="requests/s, millions", ylabel="lag of decisions, µs", yscale="log")
    left.legend(fontsize=7, loc="lower right")
    costs = sorted(found["cost"], key=lambda c: c["instructions_per_request"])
    names = [f"{c['models']} model{'s' * (c['models'] > 1)}, {c['threads']} thread{'s' * (c['threads'] > 1)}, {c['workers']} workers" for c in costs]
    right.barh(names, [c["instructions_per_request"] for c in costs], color=plot.BLUE)
    right.tick_params(axis="y", labelsize=7)
    right.set(xlabel="instructions a request, load included")
    plot.says(figure, "One thread decides on millions of requests a second; more models cost more instructions a request.")
    return figure


def one_pool(found):
    figure, (left, right) = plot.axes("load, multiples of what twelve workers sustain", "", columns=2, width=4.6)
    patterns = dict(zip(dict.fromkeys(r["pattern"] for r in found["rows"]), (plot.BLUE, plot.RED, plot.GREEN)))
    for axis, key, label in ((left, "ratio", "every kind counts the same"), (right, "ratio_by_request", "every request counts the same")):
        for pattern, colour in patterns.items():
            own = [r for r in found["rows"] if r["pattern"] == pattern]
            axis.plot([r["load"] for r in own], [r[key] for r in own], "o-", color=colour, label=pattern)
        axis.axhline(1, color=plot.NEUTRAL, linestyle=":")
        axis.set_title(label, fontsize=9)
        axis.set_ylim(0.97, 1.03)
    left.set_ylabel("utility, one pool / its best division")
    plot.legend(right)
    plot.says(figure, "One pool for all kinds is worth as much as the best fixed division of its workers, which is only known in hindsight.")
    return figure


def variants_goal(found):
    slos = sorted({r["slo_ms"] for r in found["rows"]})
    figure, axes = plot.axes("load (1: the best variants sustain it)", "utility", columns=len(slos), width=3.6)
    for axis, slo in zip(axes, slos):
        own = [r for r in found["rows"] if r["slo_ms"] == slo]
        for policy in [p for p in plot.STYLES if p in own[0]]:
            axis.plot([r["load"] for r in own], [r[policy] for r in own], marker="o", markersize=4, **plot.style(policy))
        by_load(axis, own, slo, least=0.5)
    plot.legend(axes[-1])
    plot.says(figure, "The default is near what no policy can exceed; SneakPeek's window of 25 ms comes close at tight SLOs.")
    return figure


def triton(found):
    """Beside Triton's best policy at each load, not each of its nine."""
    figure, made = plot.axes("", "", rows=2, columns=2, width=4.6, height=2.9)
    for axis, part in zip(made.flat, ("overload", "shared", "mixed")):
        runs = found[part]["runs"]
        for name, line in (("fermata", "o-"), ("best", "s--"), ("none", "x:")):
            loads = sorted(runs["fermata"], key=float)
            rivals = [n for n in runs if n != "fermata"]
            if name == "best":
                share = [max(on_time(runs[n][load]) for n in rivals if load in runs[n]) for load in loads]
            elif name == "none" and "none" in runs:
                share = [on_time(runs["none"][load]) for load in loads]
            elif name == "fermata":
                share = [on_time(runs[name][load]) for load in loads]
            else:
                continue
            axis.plot([float(load) for load in loads], share, line, color={"fermata": plot.BLUE, "best": plot.RED, "none": plot.GREY}[name],
                      label={"fermata": "Fermata", "best": "Triton, its best of nine queue policies", "none": "Triton as it comes"}[name])
        axis.set(xlabel="offered / capacity", ylabel="on time, share of offered", ylim=(0, 1.03))
        axis.set_title({"overload": "one model of 20 ms, deadlines of 50 ms", "shared": "two models on one worker",
                        "mixed": "deadlines of 50 and 200 ms in one queue"}[part], fontsize=9)
    idle = made[1][1]
    for server, colour in (("fermata", plot.BLUE), ("triton", plot.RED)):
        for name, line in (("grpc", "-"), ("http", "--")):
            points = [(int(k.split()[1]), [r["rps"] for r in v[server]]) for k, v in found["idle"]["rounds"].items() if k.startswith(name)]
            spread(idle, [x for x, _ in points], [runs for _, runs in points], color=colour, linestyle=line,
                   label=f"{server.capitalize()}, {'gRPC' if name == 'grpc' else 'HTTP'}")
    idle.set_xscale("log", base=2)
    idle.set_xticks([1, 4, 16, 64], ["1", "4", "16", "64"])
    idle.set(xlabel="requests at a time", ylabel="requests/s")
    idle.set_title("a tiny model, closed loop", fontsize=9)
    made[0][0].legend(fontsize=7, loc="upper right")
    idle.legend(fontsize=7, handlelength=3)
    plot.says(figure, "Under overload Fermata keeps more answers on time than Triton with the best of its queue policies.")
    return figure


def picker(found):
    figure, axis = plot.axes("offered load, multiples of the capacity", "on time, requests/s", width=6.0)
    for name, colour in (("picker", plot.BLUE), ("round robin", plot.GREY)):
        runs = [[run["on_time_rps"] for run in both[name]] for both in found["runs"].values()]
        spread(axis, [float(load) for load in found["runs"]], runs, color=colour, label=name)
    axis.axhline(found["capacity_rps"], color=plot.NEUTRAL, linestyle=":", linewidth=1, label="capacity")
    axis.set_ylim(0)
    plot.legend(axis)
    plot.says(figure, "In front of servers that know no deadline, shedding what would be late keeps the rest on time.")
    return figure


def on_time(run):
    return run["on_time"] / run["offered"] if "on_time" in run else statistics.mean(map(on_time, run.values()))


OTHER_RECORDS = drawings_papers.OTHER_RECORDS  # of plots that are not named as their record
DRAWN = {**drawings_ensembles.DRAWN, **drawings_times.DRAWN, **drawings_more.DRAWN, **drawings_papers.DRAWN, "policies_table": policies_table, "policies_overload": policies_overload, "policies_claims": policies_claims,
         "ensembles_burst": ensembles_burst, "variants_served": variants_served, "streams_served": streams_served,
         "scheduler": scheduler, "one_pool": one_pool, "variants_goal": variants_goal, "triton": triton, "picker": picker,
         **{name: functools.partial(ensembles_by_case, xlabel=xlabel, methods=methods, says=says + SPREAD)
            for name, (xlabel, methods, says) in ENSEMBLES.items()},
         **{f"ensembles_serve_all_{name}": ensembles_serve_all for name in ("scans-averaged", "scans-stacked", "count-weighted")},
         **{name: functools.partial(variants_swept, xlabel=xlabel, says=says) for name, (xlabel, says) in VARIANTS.items()},
         **{f"pipelines_{name}": pipelines for name in ("video", "audio-qa", "audio-sent", "sum-qa", "nlp", "prime_video", "prime_sum-qa")}}


def draw(name):
    """Draws the plot of a record again."""
    figure = DRAWN[name](record.read(OTHER_RECORDS.get(name, name)))
    figure.savefig(record.RESULTS / f"{name}.png")
    plot.plt.close(figure)
