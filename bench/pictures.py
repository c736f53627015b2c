"""Draws the pictures of README.md and docs/ (docs/pictures), and the plots of records again, from the records.

    .deps/bench/bin/python bench/pictures.py [RECORD ...]

held_batch.png: one batch under `deferred`, from its first request to its end. The moments are computed from the
policy's rule, latest start = dl - l(b+1), for the arrivals below.
"""

import sys
from pathlib import Path

import drawings
import plot

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
ALPHA, BETA, SLO = 1.5, 6.0, 30.0  # l(b) = ALPHA b + BETA, ms; the digits of a small model
ARRIVALS = [0.0, 1.6, 3.1, 5.2, 6.0, 8.3, 9.4, 10.9, 13.2, 15.0]


def latency(batch):
    return ALPHA * batch + BETA


def held(arrivals):
    """How many of the arrivals join the first one's batch, and when it starts, in ms."""
    batch = 1
    for arrival in arrivals[1:]:
        if arrival > arrivals[0] + SLO - latency(batch + 1):
            break
        batch += 1
    return batch, max(arrivals[batch - 1], arrivals[0] + SLO - latency(batch + 1))


def held_batch():
    batch, start = held(ARRIVALS)
    end = start + latency(batch)
    figure, axis = plot.axes("time since the first request, ms", "", width=8.6, height=3.4)
    blue, orange, grey = plot.COLOURS[0], plot.COLOURS[4], "#777777"
    for row, arrival in enumerate(ARRIVALS[:batch]):
        y = batch - row
        axis.plot([arrival, start], [y, y], color=blue, linewidth=1.4, linestyle=(0, (2, 2)))
        axis.plot([arrival], [y], marker="|", markersize=11, markeredgewidth=2, color=blue)
        axis.plot([arrival + SLO], [y], marker="|", markersize=11, markeredgewidth=2, color=orange)
    axis.broken_barh([(start, end - start)], (0.55, batch + 0.0), color=blue, alpha=0.9, zorder=2)
    axis.text((start + end) / 2, (batch + 1) / 2, f"one batch of {batch}\nruns {latency(batch):.0f} ms", color="white",
              ha="center", va="center", fontweight="bold")
    axis.broken_barh([(0, latency(1))], (-1.25, 0.9), color=grey, alpha=0.75)
    axis.text(latency(1) / 2, -0.8, f"alone: {latency(1):.1f} ms", color="white", ha="center", va="center", fontsize=8)
    axis.broken_barh([(start, end - start)], (-1.25, 0.9), color=blue, alpha=0.9)
    axis.text((start + end) / 2, -0.8, f"{latency(batch) / batch:.1f} ms a request", color="white", ha="center",
              va="center", fontsize=8)
    axis.text(-0.3, batch + 0.75, "held: more requests join", fontsize=9, color=blue)
    axis.text(SLO + 0.6, batch + 0.55, "deadlines", fontsize=9, color=orange)
    axis.text(end + 0.4, -0.8, f"ends {SLO - end:.1f} ms before the first deadline", va="center", fontsize=9, color=grey)
    axis.set_xlim(-1, ARRIVALS[batch - 1] + SLO + 3)
    axis.set_ylim(-1.6, batch + 1.7)
    axis.set_yticks([-0.8] + list(range(1, batch + 1)),
                    ["worker"] + [f"request {batch - i}" for i in range(batch)])
    axis.grid(axis="y", visible=False)
    PICTURES.mkdir(exist_ok=True)
    figure.savefig(PICTURES / "held_batch.png", dpi=110)


def records(names):
    for name in names:
        drawings.draw(name)


if __name__ == "__main__":
    held_batch()
    records(sys.argv[1:] or drawings.DRAWN)
