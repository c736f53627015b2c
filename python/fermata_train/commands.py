"""The two commands: which network, which loss."""

import numpy as np
import torch
from torch.nn import functional

from fermata_train.fit import Data, export, fit, seeded
from fermata_train.history import BadInput
from fermata_train.networks import Gating, TwoHeaded


def difficulty(history, options):
    """Equation 2: the task's loss with the ensemble's output as label, plus λ times the
    squared error of the score."""
    seeded(options.seed)
    network = TwoHeaded(history.features, history.image, history.ensemble.shape[1],
                        history.classification)
    ensemble = distributions(history.ensemble) if history.classification else history.ensemble
    data = Data(history.features, ensemble, history.target[:, None])
    task_loss = cross_entropy if history.classification else functional.mse_loss

    def loss(queries, ensemble, target):
        task, score = network.logits(queries)
        return task_loss(task, ensemble) + options.weight * functional.mse_loss(score, target)

    def score_error(queries, _, target):
        return functional.mse_loss(network.logits(queries)[1], target)

    summary = fit(network, data, loss, score_error, options, rate=2e-3)
    held = data.held_out
    with torch.no_grad():
        predicted = network(held[0])[1][:, 0].numpy()
    true = held[2][:, 0].numpy()
    export(network, history.features, options)
    return {**summary, "target": options.target, "held_out": {
        "queries": len(true), "squared_error": rounded(np.square(predicted - true).mean()),
        "variance": rounded(true.var()), "correlation": rounded(correlation(predicted, true))}}


def gating(history, options):
    """The loss is that of the base models' weighted average."""
    seeded(options.seed)
    network = Gating(history.features, history.image, len(history.models))
    outputs, truth = history.outputs, history.labels
    if history.classification:
        outputs = distributions(outputs)
        truth = distributions(history.ensemble) if truth is None else (
            np.eye(history.ensemble.shape[1], dtype=np.float32)[truth])
    elif truth is None:
        truth = history.ensemble
    data = Data(history.features, outputs, truth)

    def loss(queries, outputs, truth):
        average = (network(queries)[:, :, None] * outputs).sum(1)
        if history.classification:
            return -(truth * average.clamp(min=1e-6).log()).sum(1).mean()
        return functional.mse_loss(average, truth)

    summary = fit(network, data, loss, loss, options, rate=3e-4)  # larger ones saturate the softmax
    with torch.no_grad():
        weights = network(data.held_out[0]).mean(0)
    export(network, history.features, options)
    mean = {name: rounded(w) for name, w in zip(history.models, weights)}
    return {**summary, "held_out": {"queries": len(data.held_out[0]), "mean_weights": mean}}


def distributions(outputs):
    """The outputs where they are probabilities, else the softmax of them as logits."""
    if (outputs >= 0).all() and np.allclose(outputs.sum(-1), 1, atol=1e-3):
        return outputs
    if outputs.shape[-1] < 2:
        raise BadInput("a classification's outputs have one number, expected a score for each class")
    powers = np.exp(outputs - outputs.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def cross_entropy(logits, label):
    return -(label * functional.log_softmax(logits, 1)).sum(1).mean()


def correlation(a, b):
    return np.corrcoef(a, b)[0, 1] if a.std() > 0 and b.std() > 0 else 0.0


def rounded(value):
    return round(float(value), 5)
