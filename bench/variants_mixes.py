"""Streams whose labels come in other mixes than the variants were profiled on, and what a policy may
know of them. Needs NumPy only."""

import itertools

import numpy

JEFFREYS = 0.5  # the uninformative prior, for each class
EVEN = [0.1] * 10
USUAL = [0.45 if label in (1, 2) else 0.1 / 8 for label in range(10)]
STREAMS = {"as profiled": [EVEN], "nine in ten usual": [USUAL], "in turns": [USUAL, EVEN]}
TURN_S = 3
# Whether a policy knows which labels come on average, looks at the data, and may short-circuit.
# Who knows them has a prior that weighs as much as one request, in their shares.
WAYS = {"profile": (False, False, False), "average": (True, False, False),
        "evidence": (False, True, False), "average and evidence": (True, True, False),
        "average and evidence, short circuits": (True, True, True)}


def counts(neighbours, classes):
    """By example how many of its neighbours have each class."""
    return (neighbours[:, :, None] == numpy.arange(classes)).sum(1)


def believed(recall, neighbours):
    """By example and variant, how probably it is right, by the neighbours and an uninformative prior."""
    recall = numpy.array(recall)
    theta = counts(neighbours, recall.shape[1]) + JEFFREYS
    return theta / theta.sum(1, keepdims=True) @ recall.T


def agreement(names, recall, neighbours, correct):
    """By pair of variants: how what evidence says of their difference and what it is correlate."""
    said = believed(recall, neighbours)
    return {f"{names[b]} over {names[a]}": float(numpy.corrcoef(
        said[:, b] - said[:, a], correct[:, b] - correct[:, a])[0, 1])
        for a, b in itertools.combinations(range(len(names)), 2)}


def drawn(truth, mix, count, seed=1):
    """Rows of the examples, with repetition, as often as their labels come."""
    weights = numpy.array(mix)[truth] / numpy.bincount(truth, minlength=len(mix))[truth]
    return numpy.random.default_rng(seed).choice(len(truth), count, p=weights / weights.sum())


def streamed(document, stream, way, seconds):
    """The scenario of one application, with the stream's labels and what the policy may know."""
    mixes, (known, aware, short) = STREAMS[stream], WAYS[way]
    application, = document["applications"]
    application["labels"] = mixes[0]
    application["label_changes"] = [{"at_s": TURN_S * turn, "labels": mixes[turn % len(mixes)]}
                                    for turn in range(1, int(seconds) // TURN_S + 1) if len(mixes) > 1]
    average = numpy.mean(mixes, axis=0)
    if known:
        for variant in application["variants"]:
            variant["accuracy"] = min(1.0, float(average @ variant["recall"]))
    if known and aware:
        application["prior"] = average.tolist()
    return document | {"data_aware": aware, "short_circuit": short}
