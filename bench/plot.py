"""The common look of the benchmarks' plots, and where results go.

    import plot
    figure, axis = plot.axes("offered, requests/s", "on time, requests/s")
    axis.plot(...)
    plot.save("overload", figure, document)     # bench/results/overload.{json,png}

Needs matplotlib (Debian's python3-matplotlib, 3.6, or newer).
"""

import matplotlib

import record

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (after the choice of backend)

# Okabe and Ito's colours, told apart by nearly everybody; ours comes first.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999"]
NEUTRAL = COLOURS[-1]  # bounds, deadlines, what was offered

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
