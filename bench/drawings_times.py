"""Plots of what decisions, front ends and dynamic DNNs take, each from its record alone (drawings.py)."""

import itertools
import statistics

import plot

GROUP_WITHIN_US = 100  # group.py
MUST_RATIO, MUST_ADDED_US = 0.75, 50  # front_end.py


def spread(axis, x, runs, **style):
    middle = [statistics.median(r) for r in runs]
    axis.errorbar(x, middle, [[m - min(r) for m, r in zip(middle, runs)], [max(r) - m for m, r in zip(middle, runs)]],
                  marker="o", markersize=4, capsize=2, **style)


def group(found):
    figure, axes = plot.axes("", "one decision, median, µs", columns=2, width=4.6)
    for axis, rows, field, label in [(axes[0], found["by_requests"], "requests", "requests, of 3 services"),
                                     (axes[1], found["by_applications"], "applications", "services, 24 requests")]:
        for policy in dict.fromkeys(row["policy"] for row in rows):
            points = [(r[field], r["p50_us"]) for r in rows if r["policy"] == policy]
            axis.plot(*zip(*points), marker=".", **plot.style(policy))
        axis.set(xlabel=label, yscale="log")
        axis.axhline(GROUP_WITHIN_US, color=plot.NEUTRAL, linestyle=":", label="target for 24 requests of 3")
    axes[0].set_xscale("log", base=2)
    sizes = sorted({r["requests"] for r in found["by_requests"]})
    axes[0].set_xticks(sizes, [str(size) for size in sizes])
    plot.legend(axes[1])
    plot.says(figure, "24 requests take the published policies about 10 µs; `grouped` searches exactly up to five services, and takes up to 1.3 ms then.")
    return figure


def ensemble(found):
    """The planner by size; next to it the published table over rewards, by its step."""
    colours = (plot.BLUE, plot.ORANGE, plot.GREEN, plot.PINK, plot.SKY, plot.GREY)
    figure, axes = plot.axes("", "", columns=3, width=4.2)
    for colour, models in zip(colours, dict.fromkeys(r["models"] for r in found["sizes"])):
        for reach, line in ((3, "-"), (20, "--")):
            points = [(r["queries"], r["p50_us"]) for r in found["sizes"] if (r["models"], r["reach"]) == (models, reach)]
            axes[0].plot(*zip(*points), marker=".", linestyle=line, color=colour,
                         label=f"{models} models" + (", far deadlines" if reach == 20 else ""))
    axes[0].set(xlabel="queries (far: up to 20 times the slowest model, else 3)", ylabel="one decision, median, µs", yscale="log")
    axes[0].set_xscale("log", base=2)
    sizes = sorted({r["queries"] for r in found["sizes"]})
    axes[0].set_xticks(sizes, [str(size) for size in sizes])
    for colour, queries in zip(colours, dict.fromkeys(r["queries"] for r in found["published"])):
        rows = [r for r in found["published"] if r["queries"] == queries]
        deltas = [r["delta"] for r in rows]
        axes[1].plot(deltas, [r["p50_us"] for r in rows], marker=".", color=colour, label=f"{queries} queries, published table")
        axes[1].plot(deltas, [r["planner_p50_us"] for r in rows], linestyle=":", color=colour, label=f"{queries} queries, planner")
        axes[2].plot(deltas, [100 * (1 - r["utility"] / r["best"]) for r in rows], marker=".", color=colour)
    for axis in axes[1:]:
        axis.set(xlabel="step of the rewards, δ", xscale="log")
    axes[1].set(ylabel="one decision, median, µs", yscale="log")
    axes[2].set_ylabel("utility below the planner's, %")
    for axis in axes[:2]:
        axis.legend(fontsize=7, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.32))
    plot.says(figure, "The planner takes less time than the published table at any step that is nearly as good, and its plans are worth no less.")
    return figure


def front_end(found):
    """Every run a point: throughput next to a bare echo, and the time that the server adds."""
    figure, (left, right) = plot.axes("", "", columns=2, width=4)
    names = [{"grpc": "gRPC", "http": "HTTP"}[result["protocol"]] for result in found["results"]]
    for axis, key, must, label in ((left, "ratio", found["must"]["ratio"], "requests/s, share of a bare echo's"),
                                   (right, "added_us", found["must"]["added_us"], "added by the server, µs")):
        for x, result in enumerate(found["results"]):
            runs = [run[key] for run in result["runs"]]
            axis.plot([x + 0.05 * (i - len(runs) / 2) for i in range(len(runs))], sorted(runs), "o", color=plot.BLUE, fillstyle="none", markersize=5)
            axis.plot([x], [statistics.median(runs)], "o", color=plot.BLUE, markersize=8)
        axis.axhline(must, color=plot.NEUTRAL, linestyle=":")
        axis.text(len(names) - 0.5, must, f"target: {'at least' if key == 'ratio' else 'at most'} {must:g}", ha="right", va="bottom", fontsize=8,
                  color=plot.NEUTRAL)
        axis.set(ylabel=label, ylim=(0, 1.15 * max(must, max(r[key] for result in found["results"] for r in result["runs"]))), xlim=(-0.6, len(names) - 0.4))
        axis.set_xticks(range(len(names)), names)
    ratios = ", ".join(f"{name} {result['ratio']:.2f}" for name, result in zip(names, found["results"]))
    plot.says(figure, f"Of a bare echo server's throughput: {ratios}; the server adds at most {max(r['added_us'] for r in found['results']):.0f} µs "
                      "(rings: runs, dots: medians).")
    return figure


def variants_rate(found):
    figure, axes = plot.axes("requests/s a worker", "", columns=3, width=3.8)
    pools = sorted({r["workers"] for r in found["rows"]})
    for (kind, line), (workers, colour) in itertools.product(zip(found["models"], ("-", ":", "--")),
                                                             zip(pools, (plot.BLUE, plot.ORANGE, plot.GREEN, plot.PINK, plot.SKY, plot.GREY))):
        own = [r for r in found["rows"] if (r["kind"], r["workers"]) == (kind, workers)]
        for axis, what in zip(axes, ("on_time", "p99_ms", "server_us")):
            axis.plot([r["rate_rps"] / workers for r in own], [r[what] for r in own], marker="o", markersize=4, linestyle=line, color=colour,
                      label=f"{kind}, {workers} worker{'s' * (workers > 1)}")
    for axis, label in zip(axes, ("share on time", "latency, 99 %, ms", "a request's share of a core, µs")):
        axis.set_ylabel(label)
    axes[0].axhline(found["must"], color=plot.NEUTRAL, linestyle=":")
    axes[1].set_ylim(0)
    axes[2].set_yscale("log")
    plot.legend(axes[2])
    plot.says(figure, "On time at every rate up to 64 emulated workers (dotted: the target); a request costs less of a core the more there are.")
    return figure


def dynamic(found):
    figure, (first, second) = plot.axes("", "", columns=2, width=4.8)
    for (slo, colour), (rate, line) in itertools.product(zip((50, 100, 150), (plot.GREEN, plot.PINK, plot.BLUE)), ((15, "-"), (30, "--"))):
        own = [r for r in found["mismatches"]["rows"] if r["trace"] == "lte" and (r["rate"], r["slo_ms"]) == (rate, slo)]
        first.plot([r["clients"] for r in own], [r["static_stale"] for r in own], marker="o", markersize=4, linestyle=line, color=colour,
                   label=f"{slo} ms, {rate} frames/s")
    first.set(xlabel="clients, LTE trace", ylabel="frames on the DNN before, static")
    first.set_xticks([1, 2, 4])
    first.legend(fontsize=7, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    for side, colour in zip((16, 20, 24, 28), (plot.SKY, plot.ORANGE, plot.PINK, plot.BLUE)):
        own = [r for r in found["exits"]["rows"] if r["side"] == side]
        second.plot([r["batch"] for r in own], [r["ratio"] for r in own], marker="o", markersize=4, color=colour, label=f"{side} pixels a side")
    second.axhline(1, color=plot.NEUTRAL, linestyle=":")
    second.set_xscale("log", base=2)
    second.set_xticks([1, 4, 8, 16], ["1", "4", "8", "16"])
    second.set(xlabel="batch", ylabel="latency, with early exits / without")
    second.legend(fontsize=7, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    least = min(r["ratio"] for r in found["exits"]["rows"])
    plot.says(figure, f"A dynamic DNN switches without a load: {found['mismatches']['dynamic']} of its frames ran on the DNN before, of static ones "
                      f"{found['mismatches']['static']}.\nEarly exits shorten the widest DNN's batches by up to {1 - least:.0%}.")
    return figure


def dynamic_streams(found):
    slos = sorted({r["slo_ms"] for r in found["rows"]})
    figure, made = plot.axes("clients, WiFi trace", "", rows=2, columns=len(slos), width=3.8, height=2.6)
    for column, slo in enumerate(slos):
        for kind, name, colour in (("exits", "early exits", plot.BLUE), ("whole", "no exits", plot.GREY)):
            own = [r for r in found["rows"] if (r["slo_ms"], r["service"]) == (slo, kind)]
            for row, scale, what in ((0, 1, "median_ms"), (1, 100, "accuracy")):
                made[row][column].plot([r["clients"] for r in own], [scale * r[what] for r in own], marker="o", markersize=4, color=colour, label=name)
        made[0][column].set(title=f"SLO {slo} ms, 25 frames/s", ylabel="median latency, ms", ylim=0)
        made[1][column].set(ylabel="right answers, %")
        for row in made:
            row[column].set_xticks([1, 2, 4])
    plot.legend(made[0][-1])
    right = {(r["service"], r["slo_ms"], r["clients"]): 100 * r["accuracy"] for r in found["rows"]}
    gains = [right["exits", slo, clients] - whole for (kind, slo, clients), whole in right.items() if kind == "whole"]
    plot.says(figure, f"Early exits have the lower median latency in {found['lower_median']} of {found['pairs']} settings, "
                      f"and change the share of right answers by {min(gains):.0f} to +{max(gains):.0f} points.")
    return figure


DRAWN = {"group": group, "ensemble": ensemble, "front_end": front_end, "variants_rate": variants_rate, "dynamic": dynamic,
         "dynamic_streams": dynamic_streams}
