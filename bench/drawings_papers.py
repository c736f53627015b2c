"""Plots of the papers' figures, each from its record alone (drawings.py)."""

import plot
import record
from policies import figures as symphony

POLICIES = ("fermata", "sneakpeek", "grouped", "lo-priority", "lo-edf", "maxacc-edf")
PIPELINES = ("video", "audio-qa", "audio-sent", "sum-qa", "nlp")
IPA_METHODS = ("IPA", "FA2-low", "FA2-high", "RIM")


def dots(axis, names, x, values, **style):
    axis.plot(x, values, "o", markersize=6, **style)
    axis.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)


def variants_policies(found):
    """Figures 5 and 6 of SneakPeek, under the sigmoid penalty."""
    rows = {(r["policy"], r["short_circuit"]): r for r in found["rows"] if r["penalty"] == "sigmoid"}
    figure, axes = plot.axes("", "", columns=3, width=3.8)
    for axis, what, label in zip(axes, ("utility", "accuracy", "late"), ("utility", "accuracy of answers", "late, share of requests")):
        for short, full, shift in ((True, "full", -0.12), (False, "none", 0.12)):
            for i, policy in enumerate(POLICIES):
                dots(axis, POLICIES, [i + shift], [rows[policy, short][what]], color=plot.STYLES[policy][0], fillstyle=full,
                     label=("with" if short else "without") + " short circuits" if i == 0 else None)
        axis.set(ylabel=label, ylim=(-0.03, 1.03))
    plot.legend(axes[2])
    plot.says(figure, "With three windows of work in each window the default is late least and has the highest utility; the most accurate variant for all is always late.")
    return figure


def variants_awareness(found):
    """What each step adds, with its 95 % interval: of paired runs, where the whole utilities would hide it."""
    figure, axis = plot.axes("", "utility added by it, points", width=7)
    for way, name, full, shift in (("data-aware", "looking at the data", "full", -0.12), ("data-aware, short circuits", "short circuits besides", "none", 0.12)):
        for i, policy in enumerate(POLICIES):
            low, high = (100 * v for v in found[policy][way]["added"])
            axis.errorbar([i + shift], [(low + high) / 2], [(high - low) / 2], fmt="o", capsize=3, color=plot.STYLES[policy][0], fillstyle=full,
                          label=name if i == 0 else None)
    axis.axhline(0, color=plot.NEUTRAL, linestyle=":")
    names = [f"{p}\n{found[p]['oblivious']['utility']:.3f}" for p in POLICIES]
    axis.set_xticks(range(len(POLICIES)), names, fontsize=8)
    axis.set_xlabel("policy, and its utility without either")
    plot.legend(axis)
    plot.says(figure, f"Looking at the data costs `sneakpeek` two points of utility and the default at most half a point ({found['runs']} paired runs).")
    return figure


def pipelines_forecasts(found):
    names = [name for name in ("reactive", "moving-maximum", "square-root", "square-root 95 %", "model", "perfect") if name in found["lost"]]
    colours = dict(zip(("reactive", "moving-maximum", "square-root", "square-root 95 %", "model", "perfect"),
                       (plot.GREY, plot.ORANGE, plot.PINK, plot.RED, plot.SKY, plot.GREEN)))
    figure, axis = plot.axes("", "late or dropped in the bursty load, %", width=8)
    for k, name in enumerate(names):
        cases = found["lost"][name]["cases"]
        means, halves = zip(*(cases[p]["lost"] for p in PIPELINES))
        axis.errorbar([i + 0.12 * (k - len(names) / 2) for i in range(len(PIPELINES))], [100 * m for m in means], [100 * h for h in halves], fmt="o",
                      capsize=2, color=colours[name], label={"model": "trained network"}.get(name, name))
    axis.set_xticks(range(len(PIPELINES)), PIPELINES)
    axis.set_ylim(bottom=min(0, axis.get_ylim()[0]))
    plot.legend(axis)
    plot.says(figure, "Of the forecasts that need no network, the moving maximum loses the fewest requests (mean, 95 % interval).")
    return figure


def pipelines_latencies(found):
    figure, axes = plot.axes("latency, s", "share of answers", columns=5, width=2.5, height=2.8)
    for axis, name in zip(axes, PIPELINES):
        for method in IPA_METHODS:
            values = found[f"{name} {method}"]
            axis.plot([ms / 1e3 for ms in values], [k / len(values) for k in range(1, len(values) + 1)], **plot.style(method))
        axis.set_title(name, fontsize=9)
        axis.set(xlim=0, ylim=(0, 1.02))
    for axis in axes[1:]:
        axis.set_ylabel("")
    plot.legend(axes[-1])
    plot.says(figure, "In the bursty load IPA's answers take about as long as those of the most accurate variants (FA2-high), and longer than the cheapest ones'.")
    return figure


def pipelines_trade_offs(found):
    figure, axis = plot.axes("cost, cores", "accuracy", width=7)
    for name, colour in zip(PIPELINES, (plot.BLUE, plot.ORANGE, plot.GREEN, plot.PINK, plot.SKY)):
        means = {field: [found[f"{name} {weight}"][field] for weight in (1, 10, 100, 1000)] for field in ("cost", "accuracy")}
        axis.errorbar([m for m, _ in means["cost"]], [m for m, _ in means["accuracy"]], [half for _, half in means["accuracy"]],
                      [half for _, half in means["cost"]], marker="o", markersize=4, capsize=2, color=colour, label=name)
    axis.set_xscale("log")
    ticks = [2, 5, 10, 20, 50, 100]
    axis.set_xticks(ticks, [str(tick) for tick in ticks])
    axis.minorticks_off()
    plot.legend(axis, title="weight of accuracy\n1, 10, 100, 1000", title_fontsize=8)
    plot.says(figure, "A larger weight of accuracy buys accuracy with cores (mean, 95 % interval).")
    return figure


def policies_figures(found):
    """Symphony's figures 6 to 11 and 13."""
    overload = record.read("policies_overload")["curves"]
    figure, axes = plot.axes("", "", rows=3, columns=5, width=3.3, height=2.9)
    models = list(dict.fromkeys(b["model"] for b in found["near_the_peak"]))
    for row, model in enumerate(models):
        for own in (b for b in found["near_the_peak"] if b["model"] == model):
            batches = {int(size): count for size, count in own["batches"].items()}
            items = sum(size * count for size, count in batches.items())
            axes[row][0].plot(sorted(batches), [100 * size * batches[size] / items for size in sorted(batches)], marker=".", **plot.style(own["policy"]))
            axes[row][1].plot(symphony.LOADS, own["queueing_p99_ms"], marker="o", markersize=4, **plot.style(own["policy"]))
        axes[row][0].set(xlabel="items in a batch", ylabel="requests, %", title=model)
        axes[row][1].set(xlabel="load / own peak", ylabel="queueing, 99 %, ms", title=model, ylim=0)
    panels = [(axes[0][2], "busy workers, share", lambda p: 1 - p["idle"]), (axes[2][4], "on time, requests/s", lambda p: p["on_time_rps"])]
    for axis, label, of in panels:
        for policy, points in overload.items():
            axis.plot([p["offered_of_peak"] for p in points], [of(p) for p in points], **plot.style(policy))
        axis.set(xlabel="offered / peak of fermata", ylabel=label, ylim=0, title="overload")
    symphony_pools(axes, found)
    for column, (name, rates) in enumerate(found["by_slo"].items()):
        for policy, values in rates.items():
            axes[2][column].plot(symphony.WORKLOAD_SLOS, values, marker="o", markersize=4, **plot.style(policy))
        axes[2][column].set(xlabel="SLO, ms", ylabel="goodput, requests/s", ylim=0, title=name)
    plot.legend(axes[1][4])
    plot.says(figure, f"In Symphony's figures 6 to 11 and 13 the default's goodput is at least {least_share(found):.3f} of the best policy's.")
    return figure


def least_share(found):
    """Of the default in the best policy's goodput, over the zoos, SLOs and numbers of workers."""
    cases = [own for by in found["zoos"].values() for own in by.values()]
    cases += [dict(zip(by, values)) for by in (*found["by_slo"].values(), found["by_workers"]) for values in zip(*by.values())]
    return min(case["fermata"] / max(case.values()) for case in cases)


def symphony_pools(axes, found):
    for policy, rates in found["by_workers"].items():
        axes[1][2].plot(symphony.WORKERS, rates, marker="o", markersize=4, **plot.style(policy))
    axes[1][2].set(xlabel="workers", ylabel="goodput, requests/s", title="20 models, SLO 100 ms", ylim=0)
    for row, (kind, by_slo) in enumerate(found["by_delay"].items()):
        for (slo, rates), line in zip(by_slo.items(), ("-", "--", "-.", ":")):
            axes[row][3].plot(symphony.DELAYS_MS[kind], rates, marker="o", markersize=4, color=plot.BLUE, linestyle=line, label=f"fermata, SLO {slo} ms")
        axes[row][3].set(xlabel="network delay, ms", ylabel="goodput, requests/s", ylim=0, title=kind)
    for row, (name, by_gains) in enumerate(found["zoos"].items()):
        for i, (gains, own) in enumerate(by_gains.items()):
            for k, (policy, rate) in enumerate(own.items()):
                axes[row][4].plot([i + 0.12 * (k - 1.5)], [rate], "o", color=plot.STYLES[policy][0])
        axes[row][4].set_xticks(range(len(by_gains)), [gains.replace("beta", "β").replace("alpha", "α") for gains in by_gains], fontsize=8)
        axes[row][4].set(ylabel="goodput, requests/s", ylim=0, title=f"{name}, 64 workers")


STREAM_SLOS = (75, 100, 150)


def streams_simulated(found):
    """Jellyfish's figure 12."""
    figure, made = plot.axes("clients", "", rows=2, columns=3, width=3.6, height=2.8)
    methods = [m for m in ("fermata", "middle", "high", "low", "DNN alone") if any(r["method"] == m for r in found["rows"])]
    for column, slo in enumerate(STREAM_SLOS):
        above, below = made[0][column], made[1][column]
        for method in methods:
            own = [r for r in found["rows"] if r["method"] == method and r["slo_ms"] == slo and r["trace"] == "lte" and r["rate"] == 15]
            above.plot([r["clients"] for r in own], [100 * r["miss_rate"] for r in own], marker="o", markersize=4, **plot.style(method))
            below.plot([r["clients"] for r in own], [r["accuracy"] for r in own], marker="o", markersize=4, **plot.style(method))
        above.set(title=f"LTE, 15 frames/s, SLO {slo} ms", ylabel="frames missed, %", ylim=(-0.1, 130))
        above.set_yscale("symlog", linthresh=1)
        above.set_yticks([0, 1, 10, 100], ["0", "1", "10", "100"])
        below.set(ylabel="accuracy of answers on time", ylim=0)
        for axis in (above, below):
            axis.set_xticks([1, 2, 4, 8])
    plot.legend(made[0][2])
    plot.says(figure, "Clients that are told their size miss nearly as few frames as with the low DNN, and their answers are more accurate than its.")
    return figure


def streams_simulated_more(found):
    """Jellyfish's figures 11, 13 and 17."""
    figure, made = plot.axes("", "", rows=2, columns=3, width=4.2, height=3)
    (sent, link, cdf), (missed, accuracy, busy) = made
    for client, colour in ((0, plot.BLUE), (1, plot.ORANGE)):
        own = [row for row in found["chosen"] if row[0] == client]
        at = [row[1] for row in own]
        sent.step(at, [row[2] for row in own], color=colour, label=f"client {client + 1}")
        link.step(at, [row[3] for row in own], color=colour, label=f"client {client + 1}, its link")
        link.plot(at, [row[4] for row in own], ":", color=colour, label="its estimate")
    sent.set(xlabel="time, s (synthetic trace, 25 frames/s, SLO 100 ms)", ylabel="size of frames sent, pixels a side")
    link.set(xlabel="time, s", ylabel="bandwidth, Mbit/s", ylim=0)
    lines = {2: "-", 4: "--", 8: ":"}
    for row in (r for r in found["latencies"] if r["rate"] == 15):
        colour = dict(zip(STREAM_SLOS, (plot.GREEN, plot.PINK, plot.BLUE)))[row["slo_ms"]]
        cdf.plot(row["percentiles_ms"], range(101), color=colour, linestyle=lines[row["clients"]], label=f"SLO {row['slo_ms']} ms, {row['clients']} clients")
    cdf.set(xlabel="latency end to end, ms (synthetic trace, 15 frames/s)", ylabel="answers, %")
    for slo, colour in ((100, plot.PINK), (150, plot.BLUE)):
        own = [r for r in found["large"] if r["slo_ms"] == slo and r["trace"] == "lte"]
        for axis, what, scale in ((missed, "miss_rate", 100), (accuracy, "accuracy", 1), (busy, "utilization", 100)):
            axis.plot([r["clients"] for r in own], [scale * r[what] for r in own], marker="o", markersize=4, color=colour, label=f"SLO {slo} ms")
    for axis, label in ((missed, "frames missed, %"), (accuracy, "accuracy of answers on time"), (busy, "workers busy, %")):
        axis.set(xlabel="clients (8 workers, LTE, 15 frames/s)", ylabel=label, ylim=0)
        axis.set_xticks([8, 16, 24, 32])
        axis.legend(fontsize=7)
    for axis in (sent, link, cdf):
        axis.legend(fontsize=6)
    plot.says(figure, "Frames follow the bandwidth, latencies stay below the SLO, and eight workers serve 32 clients with few misses.")
    return figure


def variants_specialists(found):
    """Each stream of labels a column: utilities with and without evidence, and what it adds to the average, with its 95 % interval."""
    streams, loads = (list(dict.fromkeys(row[key] for row in found["rows"])) for key in ("stream", "load"))
    ways = [way for way in found["rows"][0] if isinstance(found["rows"][0][way], dict) and "utility" in found["rows"][0][way]]
    figure, axes = plot.axes("", "utility", rows=2, columns=len(streams), width=4.2)
    for (above, below), stream in zip(zip(*axes), streams):
        of = {policy: [r for r in found["rows"] if (r["stream"], r["policy"]) == (stream, policy)] for policy in ("fermata", "sneakpeek", "grouped")}
        for policy, line in (("fermata", "-"), ("sneakpeek", "--")):
            for way, colour in zip(ways, (plot.BLUE, plot.SKY, plot.GREEN, plot.ORANGE, plot.RED, plot.PINK)):
                above.plot(range(len(loads)), [r[way]["utility"] for r in of[policy]], line, marker=".", color=colour, label=f"{policy}: {way}")
        above.plot(range(len(loads)), [r["bound"] for r in of["fermata"]], ":", color=plot.NEUTRAL, label="bound")
        above.set_title(f"labels {stream}", fontsize=9)
        for i, (policy, rows) in enumerate(of.items()):
            added = [r["added"]["average and evidence over average"] for r in rows]
            below.errorbar([x + i / 12 for x in range(len(loads))], [(low + high) / 2 for low, high in added],
                           [(high - low) / 2 for low, high in added], marker="o", markersize=4, capsize=2, **plot.style(policy))
        below.axhline(0, color=plot.NEUTRAL, linewidth=0.8)
        below.set(xlabel="load, multiples of what the best variant sustains", ylabel="utility that evidence adds")
        for axis in (above, below):
            axis.set_xticks(range(len(loads)), [f"{load}x" for load in loads])
    for axis in (axes[0][-1], axes[1][-1]):
        axis.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=7)
    plot.says(figure, "From twice the load on, evidence is worth 0.01 to 0.06 of utility to the default, unless the mix of classes is known.")
    return figure


def streams_divided(found):
    """Figure 16 of Jellyfish: every setting a point."""
    figure, axis = plot.axes("frames missed, %", "accuracy of answers on time", width=6)
    for method in dict.fromkeys(r["method"] for r in found["rows"]):
        mine = [r for r in found["rows"] if r["method"] == method]
        colour = plot.STYLES[method][0] if method in plot.STYLES else plot.COLOURS[1 + len(axis.lines) % (len(plot.COLOURS) - 1)]
        axis.plot([100 * r["miss_rate"] for r in mine], [r["accuracy"] for r in mine], "o", markersize=4, color=colour, label=method)
    axis.set_xscale("symlog", linthresh=0.1)
    plot.legend(axis)
    plot.says(figure, "If network and DNN adapt together, hardly a frame is missed; with fixed shares of the SLO for each, 1.4 to 44 %.")
    return figure


def cluster_delay(found):
    """Figure 13 of Symphony on hosts of their own: a point is a goodput, dashed in virtual time."""
    figure, axis = plot.axes("delay of the network, ms each way", "goodput, requests/s", width=6)
    for slo_ms, colour in zip(found["slos_ms"], plot.COLOURS):
        points = [point for point in found["points"] if point["slo_ms"] == slo_ms]
        delays = [point["delay_ms"] for point in points]
        axis.plot(delays, [point["simulated_rps"] for point in points], "--", color=colour)
        axis.plot(delays, [point["measured_rps"] for point in points], "o-", color=colour, label=f"SLO {slo_ms} ms, served")
    axis.plot([], [], "--", color=plot.NEUTRAL, label="simulated")
    axis.set_ylim(0)
    plot.legend(axis)
    ratios = [point["ratio"] for point in found["points"]]
    plot.says(figure, f"Served on eight hosts, slowed tenfold, goodput is {min(ratios):.2f} to {max(ratios):.2f} of the simulated one, at any delay of the network.")
    return figure


DRAWN = {"variants_specialists": variants_specialists, "streams_divided": streams_divided, "cluster_delay": cluster_delay,
         "variants_policies_all_resident": variants_policies, "variants_policies_one_resident": variants_policies,
         "variants_awareness": variants_awareness, "pipelines_forecasts": pipelines_forecasts, "pipelines_latencies": pipelines_latencies,
         "pipelines_trade_offs": pipelines_trade_offs, "policies_figures": policies_figures, "streams_simulated": streams_simulated,
         "streams_simulated_more": streams_simulated_more}
OTHER_RECORDS = {"streams_simulated_more": "streams_simulated"}  # of plots that share one
