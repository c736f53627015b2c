"""What the runs of bench/streams.py have in common: DNNs, methods, settings, what is asked of the rows."""

import itertools
import math

SIDES = range(128, 640, 32)
SLOS, RATES = (75, 100, 150), (15, 25)
LOW, MIDDLE, HIGH = 0, 7, 15
MOST_BATCH = 12
METHODS = {"fermata": {}, "low": {"mode": "fixed", "variant": LOW, "scheduler": "edf"},
           "middle": {"mode": "fixed", "variant": MIDDLE, "scheduler": "edf"},
           "high": {"mode": "fixed", "variant": HIGH, "scheduler": "edf"},
           "DNN alone": {"mode": "dnn-alone", "variant": MIDDLE}}
# Figure 16's, in virtual time: half or three quarters of every objective are the server's, and clients send what
# their link bears, or what it brings in the rest.
DIVIDED = {f"{name}, {share:.0%}": {"mode": mode, "compute_share": share}
           for name, mode in (("DA_bw", "bandwidth-alone"), ("DA_slo", "objective-alone")) for share in (0.5, 0.75)}
# Table 2's clients: objective in ms and frames a second.
MIXED = {4: [(75, 15), (100, 15), (150, 25), (75, 25)],
         8: [(75, 15), (100, 15), (150, 15), (75, 15), (100, 25), (150, 25), (75, 25), (100, 25)]}
MEMORY_MB, LOAD_MS = 10, 175  # of a DNN, where workers do not hold all: the middle of what the paper measured
HOPELESS = (75, 25, 8)  # more than two workers of the smallest DNN serve in time


def each_ms(side):
    return 2.5 + 8.5 * (side / 416) ** 2.2


def variant(side):
    return {"name": f"detect-{side}", "input_size": side,
            "accuracy": round(0.44 * (1 - 1.5 * math.exp(-side / 130)), 4),
            "request_kb": round(side * side * 3 / (4.5 + side / 150) / 1000, 3),
            "latency_ms": {"table": {str(b): round(20 + b * each_ms(side), 3)
                                     for b in range(1, MOST_BATCH + 1)}}}


VARIANTS = [variant(side) for side in SIDES]
ACCURACY = {v["input_size"]: v["accuracy"] for v in VARIANTS}


def clients_of(count, slo, rate):
    return MIXED[count] if slo == "mixed" else [(slo, rate)] * count


def settings(counts=(1, 2, 4, 8)):
    yield from itertools.product(SLOS, RATES, counts)


def judge(rows):
    """What is asked of the rows: the settings where it does not hold."""
    by = {(r["trace"], r["slo_ms"], r["rate"], r["clients"], r["method"]): r for r in rows}
    wrong = {"misses": [], "than middle": [], "than low": []}
    for r in (r for r in rows if r["method"] == "fermata"):
        key = (r["trace"], r["slo_ms"], r["rate"], r["clients"])
        most = 0.015 if r["trace"] == "lte" else 0.01
        if key[1:] != HOPELESS and r["slo_ms"] != "mixed" and r["miss_rate"] > most:
            wrong["misses"].append([*key, r["miss_rate"]])
        middle, low = by.get((*key, "middle")), by.get((*key, "low"))
        if middle and middle["miss_rate"] > 0.01 and r["miss_rate"] >= middle["miss_rate"]:
            wrong["than middle"].append([*key, r["miss_rate"], middle["miss_rate"]])
        if low and r["accuracy"] <= low["accuracy"]:
            wrong["than low"].append([*key, r["accuracy"], low["accuracy"]])
    return wrong


def draw_rows(rows, name, document, **about):
    import plot
    figure, axes = plot.axes("clients", "", rows=2, columns=3)
    for axis, slo in zip(figure.axes[:3], SLOS):
        below = figure.axes[figure.axes.index(axis) + 3]
        for method in dict.fromkeys(r["method"] for r in rows):
            mine = [r for r in rows if r["method"] == method and r["slo_ms"] == slo and r["trace"] == "lte" and r["rate"] == 15]
            axis.plot([r["clients"] for r in mine], [100 * r["miss_rate"] for r in mine], marker="o", label=method)
            below.plot([r["clients"] for r in mine], [r["accuracy"] for r in mine], marker="o")
        axis.set_title(f"LTE, 15 frames/s, {slo} ms")
        axis.set_ylabel("misses, %")
        axis.set_yscale("symlog", linthresh=1)
        below.set_ylabel("accuracy of answers on time")
    figure.axes[0].legend()
    plot.save(name, figure, document, **about)


def plot_divided(rows, name):
    """Figure 16: every setting a point."""
    import plot
    figure, axis = plot.axes("misses, %", "accuracy of answers on time")
    for method in dict.fromkeys(r["method"] for r in rows):
        mine = [r for r in rows if r["method"] == method]
        axis.plot([100 * r["miss_rate"] for r in mine], [r["accuracy"] for r in mine], "o", label=method)
    axis.set_xscale("symlog", linthresh=0.1)
    axis.legend()
    figure.savefig(plot.record.RESULTS / f"{name}.png")


def plot_more(document, traces, name):
    """Figures 11, 13, 14 and 17."""
    import plot
    figure, _ = plot.axes("s", "", rows=2, columns=3)
    sent, link, cdf, bandwidth, many, accuracy = figure.axes
    for client in (0, 1):
        mine = [row for row in document["chosen"] if row[0] == client]
        at = [row[1] for row in mine]
        sent.step(at, [row[2] for row in mine], label=f"client {client + 1}")
        link.step(at, [row[3] for row in mine], label=f"client {client + 1}, its link")
        link.plot(at, [row[4] for row in mine], ":", label="what it estimates")
    sent.set_title("synthetic trace, 25/s, 100 ms")
    sent.set_ylabel("pixels a side that are sent")
    link.set_ylabel("Mbit/s")
    for row in (r for r in document["latencies"] if r["rate"] == 15):
        cdf.plot(row["percentiles_ms"], range(101), label=f"{row['slo_ms']} ms, {row['clients']} clients")
    cdf.set_xlabel("latency end to end, ms (synthetic trace, 15/s)")
    cdf.set_ylabel("answers, %")
    for trace, (mbps, hold_s) in traces.items():
        values = sorted(mbps)
        bandwidth.plot(values, [100 * (i + 1) / len(values) for i in range(len(values))], label=trace)
    bandwidth.set_xlabel("bandwidth of the traces, Mbit/s")
    bandwidth.set_ylabel("time, %")
    for slo in (100, 150):
        mine = [r for r in document["large"] if r["slo_ms"] == slo and r["trace"] == "lte"]
        many.plot([r["clients"] for r in mine], [100 * r["miss_rate"] for r in mine], marker="o", label=f"{slo} ms")
        accuracy.plot([r["clients"] for r in mine], [r["accuracy"] for r in mine], marker="o")
    many.set_ylabel("misses, % (8 workers, LTE, 15/s)")
    accuracy.set_ylabel("accuracy")
    for axis in (many, accuracy):
        axis.set_xlabel("clients")
    for axis in (sent, link, cdf, bandwidth, many):
        axis.legend(fontsize=6)
    figure.savefig(plot.record.RESULTS / f"{name}.png")
