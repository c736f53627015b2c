"""What hardly a policy can exceed: the utility that a worker's time can buy.

A policy may know of a request which class most of its neighbours have and how many of them do, and,
in hindsight, how often each variant is right about such requests. It runs any share of them by
any variant in batches of any size, always full, and answers at once when it wants to: a linear
program with one constraint, the worker's time. A request pays only for the lateness that its own
batch's run makes certain. Queues, different arrivals and switching cost nothing, so real policies
stay below; only who made something of the other neighbours too could be above.
"""

import numpy


def sigmoid_penalty(lateness):
    """Of the share of the SLO by which an answer is late."""
    x = numpy.clip(lateness, 0, 1)
    return x**3 / (x**3 + (1 - x)**3)


def kinds(neighbours, correct, truth):
    """[(share of the requests, the evidence's accuracy, by variant its accuracy)]"""
    classes = 1 + int(max(neighbours.max(), truth.max()))
    votes = (neighbours[:, :, None] == numpy.arange(classes)).sum(1)
    said, many = votes.argmax(1), votes.max(1)
    found = []
    for kind in numpy.unique(said * (1 + neighbours.shape[1]) + many):
        of = said * (1 + neighbours.shape[1]) + many == kind
        found.append((of.mean(), (said == truth)[of].mean(), correct[of].mean(0)))
    return found


def runs(ms, slo_ms):
    """By batch size the seconds of a worker for one request, and what is left of its worth.
    `ms`: run times of a variant by batch size."""
    sizes = sorted(ms)
    batch = numpy.arange(1, sizes[-1] + 1)
    run = numpy.interp(batch, sizes, [ms[size] for size in sizes])
    return run / batch / 1000, 1 - sigmoid_penalty(run / slo_ms - 1)


def most(choices, seconds):
    """The most that is earned of a unit of requests. `choices`: by kind its share and what there is
    to choose from, as arrays of worths and of seconds. By duality: at the best price of time."""
    def dual(price):
        return price * seconds + sum(share * (worth - price * cost).max()
                                     for share, worth, cost in choices)
    prices = [0.0]
    for _, worth, cost in choices:  # the dual bends where two choices are worth the same
        gain, dearer = worth[None, :] - worth[:, None], cost[None, :] - cost[:, None]
        prices += (gain[dearer > 0] / dearer[dearer > 0]).tolist()
    prices = numpy.unique(numpy.maximum(prices, 0))
    low, high = 0, len(prices) - 1
    while low < high:  # convex
        middle = (low + high) // 2
        if dual(prices[middle]) <= dual(prices[middle + 1]):
            high = middle
        else:
            low = middle + 1
    return float(dual(prices[low]))


def bound(applications, rate_rps, slo_ms, workers=1, short_circuit=True):
    """Of requests spread evenly over `applications`, each of them
    (neighbours [n, k], correct [n, variants], truth [n], [ms by batch size of each variant])."""
    choices = []
    for neighbours, correct, truth, latencies in applications:
        options = [runs(ms, slo_ms) for ms in latencies]
        cost = numpy.concatenate([[0.0], *(seconds for seconds, _ in options)])
        for share, evidence, accuracy in kinds(neighbours, correct, truth):
            worth = numpy.concatenate([[evidence * short_circuit],
                                       *(a * left for a, (_, left) in zip(accuracy, options))])
            choices.append((share / len(applications), worth, cost))
    return most(choices, workers / rate_rps)
