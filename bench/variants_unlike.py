"""Three made-up variants of each application, more and more different: SneakPeek, section 6.4.5.

One has the mean accuracy and the mean latency of the application's variants, two are below and
above it by some percent. Each is right at random, about every class alike; evidence never answers
by itself. The one between needs WORK of the window for all requests, at its most efficient batches.
"""

import numpy

import variants_zoo

PERCENT = (0, 1, 2, 3, 4, 5)  # at more the best would always be right
WORK = 0.9


def mean_variant(a):
    return {"accuracy": float(numpy.mean([v["accuracy"] for v in a["variants"]])),
            "load_ms": 0, "ms": {b: float(numpy.mean([v["ms"][b] for v in a["variants"]]))
                                 for b in variants_zoo.best(a)["ms"]}}


def unlike(name, a, percent, faster, random):
    """The application with those variants; latencies differ by `faster` times the percentage."""
    mean, classes = mean_variant(a), len(variants_zoo.best(a)["recall"])
    variants = []
    for what, sign in (("small", -1), ("medium", 0), ("large", 1)):
        accuracy = min(1.0, mean["accuracy"] * (1 + sign * percent / 100))
        variants.append({
            "name": f"{name}-{what}", "accuracy": accuracy, "recall": [accuracy] * classes,
            "load_ms": 0, "ms": {b: ms * (1 + sign * faster * percent / 100)
                                 for b, ms in mean["ms"].items()}})
    drawn = random.random((len(a["labels"]), len(variants)))
    correct = drawn < [v["accuracy"] for v in variants]
    return a | {"variants": variants,
                "correct": ["".join(str(int(c)) for c in row) for row in correct]}


def scenario(records, policy, seed, percent, faster):
    random = numpy.random.default_rng(seed)
    made = {"applications": {name: unlike(name, a, percent, faster, random)
                             for name, a in records["applications"].items()}}
    means = {"applications": {name: {"variants": [mean_variant(a)]}
                              for name, a in records["applications"].items()}}
    second = variants_zoo.WINDOW_REQUESTS * variants_zoo.WINDOWS_A_SECOND
    slowed = WORK * variants_zoo.bearable_rps(means) / second
    return variants_zoo.scenario(
        made, policy, second * slowed / variants_zoo.bearable_rps(made), slowed=slowed, seed=seed,
        seconds=5, short_circuit=False)
