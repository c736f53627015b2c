"""Networks that only the ensembles use: how each is made, trained through JAX and written as ONNX.

As the applications' networks they take `features`, FP32 [batch, values], and see it as
[batch, channels, height, width].
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from variants.networks import Recurrent
from variants.tasks import LEVELS
from training.convolutional import he_weights


class RowsAndColumns(Recurrent):
    """Reads the rows of a square grey image one after the other, then its columns."""

    def steps(self, x):
        rows = x[:, 0].transpose(1, 0, 2)
        return jnp.concatenate([rows, rows.transpose(2, 1, 0)])

    def write_steps(self, graph, x):
        rows = graph.add("Transpose", graph.reshape(x, [-1, *self.source[1:]]), perm=[1, 0, 2])
        return graph.add("Concat", rows, graph.add("Transpose", rows, perm=[2, 1, 0]), axis=0)


class Dense:
    """One hidden layer, and then a second so many times over, each time added to what is there:
    as slow as a deep network and as large as a flat one. Batches save much: the weights
    are what takes the time.
    """

    def __init__(self, source, classes, units, times):
        self.source, self.classes, self.units, self.times = source, classes, units, times

    def init(self, rng):
        def layer(inputs, outputs):
            return he_weights(rng, (inputs, outputs), inputs), np.zeros(outputs, np.float32)

        return {"first": layer(math.prod(self.source), self.units),
                "again": layer(self.units, self.units), "head": layer(self.units, self.classes)}

    @property
    def _part(self):
        return 4 / self.times

    def logits(self, params, features):
        w, b = params["first"]
        x = jax.nn.relu(features / LEVELS @ w + b)
        w, b = params["again"]
        x = jax.lax.fori_loop(0, self.times, lambda _, x: x + self._part * jax.nn.relu(x @ w + b), x)
        return x @ params["head"][0] + params["head"][1]

    def write_scores(self, graph, params, x):
        x = graph.add("Relu", graph.dense(graph.add("Flatten", x, axis=1), *params["first"]))
        w, b = (graph.constant(np.float32(self._part) * part) for part in params["again"])
        for _ in range(self.times):
            x = graph.add("Add", x, graph.add("Relu", graph.add("Gemm", x, w, b)))
        return graph.dense(x, *params["head"])
