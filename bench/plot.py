"""The common look of the benchmarks' plots, and where results go.

    import plot
    figure, axis = plot.axes("offered, requests/s", "on time, requests/s")
    axis.plot(...)
    plot.save("overload", figure, document)     # bench/results/overload.{json,png}

Needs matplotlib (Debian's python3-matplotlib, 3.6, or newer).
"""

import textwrap

import matplotlib

import record

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (after the choice of backend)

# Okabe and Ito's colours, told apart by nearly everybody; ours comes first.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999"]
LETTERS_AN_INCH = 15  # of the sentence under a plot
NEUTRAL = "#555555"  # bounds, deadlines, what was offered
BLUE, RED, GREEN, PINK, ORANGE, SKY, GREY = COLOURS
# One colour a policy, server or method in every plot; dashed and dotted lines are its variations.
STYLES = {
    "fermata": (BLUE, "-"), "fermata(t)": (BLUE, "--"), "fermata, no SC": (BLUE, "--"),
    "deferred": (GREEN, "-"), "deferred-beta-lambda": (GREEN, ":"), "deferred-prefix": (GREEN, "--"),
    "eager": (ORANGE, "-"), "clockwork": (RED, "-"), "edf": (PINK, "-"), "nexus": (GREY, "-"),
    "sneakpeek": (RED, "-"), "sneakpeek, window of 25 ms": (RED, "--"), "sneakpeek, no SC": (RED, ":"),
    "grouped": (PINK, "-"), "lo-priority": (SKY, "-"), "lo-edf": (ORANGE, "-"), "maxacc-edf": (GREY, "-"),
    "schemble": (RED, "-"), "schemble(ea)": (RED, "--"), "schemble(t)": (RED, ":"),
    "greedy-edf": (PINK, "-"), "greedy-fifo": (PINK, "--"), "greedy-sjf": (PINK, ":"),
    "schemble, true scores": (RED, (0, (1, 3))), "fermata, true scores": (BLUE, ":"),
    "original": (GREY, "-"), "static": (ORANGE, "-"), "dynamic": (SKY, "-"), "gating": (GREEN, "-"),
    "IPA": (RED, "-"), "IPA ahead": (RED, "--"), "FA2-low": (ORANGE, "-"), "FA2-high": (PINK, "-"),
    "RIM": (GREY, "-"), "SlackFit": (GREEN, "-"),
    "DNN alone": (GREEN, "-"), "low": (SKY, "-"), "middle": (ORANGE, "-"), "high": (RED, "-"),
}

plt.rcParams.update({
    "figure.dpi": 120,
    "figure.autolayout": True,
    "font.size": 9,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": matplotlib.cycler(color=COLOURS),
    "grid.alpha": 0.3,
    "legend.frameon": False,
})


def axes(xlabel, ylabel, rows=1, columns=1, width=5.0, height=3.4):
    """A figure with its axis, or its axes; labels are for all of them."""
    figure, made = plt.subplots(rows, columns, figsize=(width * columns, height * rows))
    for axis in figure.axes:
        axis.set_xlabel(xlabel)
        axis.set_ylabel(ylabel)
    return figure, made


def style(name):
    """The colour and line of a policy or method, for plot() and the like."""
    colour, line = STYLES[name]
    return {"color": colour, "linestyle": line, "label": name}


def legend(axis, **more):
    """To the right of the axis, where it hides nothing; of all axes of its figure, each name once."""
    named = {label: handle for a in axis.figure.axes for handle, label in zip(*a.get_legend_handles_labels())}
    axis.legend(named.values(), named.keys(), loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, handlelength=2.6, **more)


def says(figure, sentence):
    """What the plot shows, in one sentence under it."""
    letters = int(LETTERS_AN_INCH * figure.get_figwidth())
    figure.supxlabel("\n".join(textwrap.wrap(sentence, letters)), fontsize=8.5, color=NEUTRAL)


def save(name, figure, document, **about):
    """Writes the plot and the numbers behind it (record.write); returns the plot's path."""
    record.write(name, document, **about)
    path = record.RESULTS / f"{name}.png"
    figure.savefig(path)
    plt.close(figure)
    return path


def table(header, rows):
    """Text columns, the first to the left, numbers to the right."""
    cells = [[f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row]
             for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    return "\n".join("  ".join(cell.ljust(w) if i == 0 else cell.rjust(w)
                               for i, (cell, w) in enumerate(zip(row, widths)))
                     for row in cells)
