"""Trains the forecast of a load on its history: from what came in each of the last 120 seconds, the
highest of the next 20 (IPA, section 3)."""

import numpy as np
import torch
from torch import nn

from fermata_train.fit import export, seeded
from fermata_train.history import BadInput

WINDOW, HORIZON, PERIOD = 120, 20, 10
STEPS = WINDOW // PERIOD
BATCH, STRIDE = 512, 7
UNITS = 25


def read_trace(path):
    """Requests in each second, one a line, a heading allowed; seconds of 0 are missing data."""
    try:
        lines = path.read_text().split()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from error
    loads = []
    for number, line in enumerate(lines, 1):
        try:
            loads.append(float(line))
        except ValueError as error:
            if number > 1:
                raise BadInput(f"{path}: line {number} is '{line}', expected a number") from error
            continue
        if not 0 <= loads[-1] < 1e12:
            raise BadInput(f"{path}: line {number} is {line}, expected a number from 0 to 1e12")
    loads = np.array(loads, np.float32)
    return loads[loads > 0]


def windows(loads, stride):
    """[n, 140]: what is seen, and what follows."""
    return torch.tensor(np.lib.stride_tricks.sliding_window_view(loads, WINDOW + HORIZON)[::stride])


def halves(rows):
    """[n, 120] and the highest of the 20 that follow each, [n], but for those that nothing follows."""
    highest = rows[:, WINDOW:].amax(1)
    followed = highest > 0
    return rows[followed, :WINDOW], highest[followed]


def smaller(rows, scales):
    """Every second time as it is; else as a service sees it that has one of so many parts of the load:
    an even share of each second, as where a balancer deals requests out, or those of some users."""
    if torch.rand(()) < 0.5 or not scales:
        return rows
    parts = scales[int(torch.randint(len(scales), ()))]
    if torch.rand(()) < 0.5:
        return (rows / parts).floor()
    return torch.binomial(rows.round(), torch.full_like(rows, 1 / parts))


class Forecast(nn.Module):
    """One layer of 25 units over the periods of 10 seconds, one dense unit. Loads count relative to
    their own level, so that a network is good at any rate. `maxima`: a step is the highest second
    of its period, as published; `summary`: also their mean and deviation, and how noisy such a level is.
    """

    OUTPUTS = ("forecast",)

    def __init__(self, inputs):
        super().__init__()
        self.summary = inputs == "summary"
        self.recurrent = nn.LSTM(4 if self.summary else 1, UNITS, batch_first=True)
        self.dense = nn.Linear(UNITS, 1)

    def forward(self, loads):
        periods = loads.reshape(-1, STEPS, PERIOD)
        highest = periods.amax(2)
        level = highest.mean(1, keepdim=True).clamp(min=1e-3)
        if self.summary:
            mean = loads.mean(1, keepdim=True).clamp(min=0.05)
            means = periods.mean(2)
            deviation = ((periods - means[:, :, None]) ** 2).mean(2).sqrt()
            seen = torch.stack([2 * (highest / mean - 1), 6 * (means / mean - 1), 6 * deviation / mean,
                                10 / mean.sqrt() * torch.ones_like(means)], 2)
        else:
            seen = (4 * (highest / level - 1))[:, :, None]
        hidden, _ = self.recurrent(seen)
        return level * torch.exp(0.3 * self.dense(hidden[:, -1]))


def smape(forecast, actual):
    return 200 * ((forecast - actual).abs() / (forecast + actual)).mean()


def fit_forecast(network, loads, options):
    """Adam with a cosine step size on the error itself, relative and absolute."""
    rows = windows(loads, STRIDE)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    steps = options.epochs * -(-len(rows) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for epoch in range(options.epochs):
        for some in torch.randperm(len(rows)).split(BATCH):
            optimizer.zero_grad()
            before, after = halves(smaller(rows[some], options.scales))
            loss = smape(network(before)[:, 0], after)
            loss.backward()
            optimizer.step()
            schedule.step()
        yield epoch + 1, float(loss.detach())


def forecast(loads, options, say):
    seeded(options.seed)
    train = loads[:int(len(loads) * options.share)]
    held = loads[len(train):]
    if min(len(train), len(held)) < 10 * (WINDOW + HORIZON):
        raise BadInput(f"{options.trace}: {len(loads)} seconds with requests, too few to train on "
                       f"{options.share:g} of them and to try the rest")
    network = Forecast(options.inputs)
    for epoch, loss in fit_forecast(network, train, options):
        say(f"epoch {epoch} of {options.epochs}, error of the last batch {loss:.2f} %")
    rows = windows(held, HORIZON)
    options.input = "loads"
    export(network, rows[:, :WINDOW].numpy(), options)
    return {"seconds": len(train), "seed": options.seed, "epochs": options.epochs, "inputs": options.inputs,
            "scales": options.scales,
            "held_out": {"seconds": len(held), **errors(network, rows)},
            "held_out_by_scale": {parts: errors(network, (rows / parts).floor())
                                  for parts in options.scales}}


def errors(network, rows):
    """In percent, beside those of the forecasts that need no training."""
    before, after = halves(rows)
    with torch.no_grad():
        found = {"smape": network(before)[:, 0], "reactive": before[:, -PERIOD:].amax(1),
                 "moving_maximum": before.amax(1)}
    return {f"{name}_percent": round(float(smape(each, after)), 3) for name, each in found.items()}
