"""Fits a network to a task's recordings: members, and what several models share."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from training.adam import adam, moments_of

SEED = 7
BATCH = 64
EPOCH = 2560  # recordings, at most


@dataclasses.dataclass
class Member:
    """A network and how long it is trained, over how many recordings an epoch."""

    network: object
    epochs: int
    seed: int = SEED
    epoch: int = EPOCH
    mix: tuple = ()  # of labels in what it is trained on; as there are
    rate: float = 2e-3  # of the first steps


@dataclasses.dataclass
class Variant:
    """Answers with the mean of its members, over all shifts of the input by up to `reach`."""

    members: list
    reach: tuple = (0, 0)

    @property
    def max_batch(self):
        return 64 if self.reach == (0, 0) else 16


def cross_entropy(logits, labels):
    scores = jax.nn.log_softmax(logits)
    return -scores[jnp.arange(len(labels)), labels].mean()


def squared_error(values, labels):
    return jnp.square(values[:, 0] - labels).mean()


def train(task, member, fitting, loss=cross_entropy):
    """Adam with a cosine step size on the loss, of fresh views every epoch."""
    network, epochs, rng = member.network, member.epochs, np.random.default_rng(member.seed)
    params = network.init(rng)
    moments = moments_of(params)
    update = jax.jit(lambda *a: _update(network, loss, *a))
    steps = min(len(fitting), member.epoch) // BATCH
    for epoch in range(epochs):
        part = fitting.take(rng.permutation(len(fitting))[:steps * BATCH])
        views, losses = task.views(part, rng, fresh=True), []
        for i in range(steps):
            step, rows = epoch * steps + i, slice(i * BATCH, (i + 1) * BATCH)
            rate = member.rate * 0.5 * (1 + np.cos(np.pi * step / (steps * epochs)))
            params, moments, value = update(params, moments, rate, step + 1.0,
                                           views[rows], part.labels[rows])
            losses.append(value)
        print(f"  epoch {epoch + 1} of {epochs}, loss {np.mean(losses):.4f}", flush=True)
    return jax.tree_util.tree_map(np.asarray, params)


def _update(network, loss, params, moments, rate, step, features, labels):
    value, gradient = jax.value_and_grad(
        lambda params: loss(network.logits(params, features), labels))(params)
    return (*adam(params, moments, gradient, rate, step), value)


class Once:
    """Trains what two models share a single time."""

    def __init__(self, train):
        self.train, self.done = train, {}

    def __call__(self, task, member, fitting):
        network = member.network
        key = repr((type(network).__name__, vars(network), member.epochs, member.seed, member.mix))
        if key not in self.done:
            self.done[key] = self.train(task, member, fitting)
        return self.done[key]
