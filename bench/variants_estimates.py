"""How well evidence estimates the accuracies of variants: SneakPeek's figures 7 and 10."""

import numpy

import drawings
import plot
import variants_mixes
import variants_zoo

PRIORS = ("uninformative", "weakly informative", "strongly informative")


def error(a, prior, k):
    """Mean distance of the estimated accuracy from the recall of the true class, over variants."""
    recall = numpy.array([v["recall"] for v in a["variants"]])
    truth = variants_zoo.digits(a["labels"])[:, 0]
    if k is None:
        estimate = numpy.array([v["accuracy"] for v in a["variants"]])[None]
    else:
        found = variants_mixes.counts(variants_zoo.digits(a["neighbours"])[:, :k], len(prior))
        theta = (prior + found) / (prior + found).sum(1, keepdims=True)
        estimate = theta @ recall.T
    return float(numpy.abs(estimate - recall[:, truth].T).mean())


def priors(a):
    """By name; informative ones of the true labels, and of those of the calibration data."""
    truth = variants_zoo.digits(a["labels"])[:, 0]
    classes = len(a["variants"][0]["recall"])
    true = numpy.maximum(numpy.bincount(truth, minlength=classes) / len(truth), 1e-3)
    wrong = numpy.full(classes, 1 / classes)
    each = variants_zoo.WINDOW_REQUESTS / len(variants_zoo.NAMES)  # of one application in a window
    return {"uninformative": [numpy.full(classes, variants_mixes.JEFFREYS)] * 2,
            "weakly informative": [true, wrong],
            "strongly informative": [each * true, each * wrong]}


def figures(records):
    """Figures 7 and 10."""
    rows, document = [], {}
    for name, a in records["applications"].items():
        flat = priors(a)["uninformative"][0]
        document[name] = {"profile": error(a, flat, None), "k = 1": error(a, flat, 1),
                          "k = 5": error(a, flat, 5)}
        for prior in PRIORS[1:]:
            right, wrong = priors(a)[prior]
            document[name][f"k = 5, {prior}"] = error(a, right, 5)
            document[name][f"k = 5, {prior}, of other labels"] = error(a, wrong, 5)
        if document[name]["k = 5"] >= min(document[name]["k = 1"], document[name]["profile"]):
            yield f"figure 7: for {name} the error of k = 5 is not the least"
    rows = [[what, *(document[name][what] for name in document)] for what in document[name]]
    print("\nestimates: mean error of a variant's accuracy")
    print(plot.table(["estimated by", *document], rows))
    print(plot.save("variants_estimates", drawings.DRAWN["variants_estimates"](document), document))
