"""The digits networks: how each is made, trained through JAX and written as ONNX.

All take `image`, FP32 [batch, 64], the 8 by 8 grey values 0 to 16 row by row, and
give `probabilities`, FP32 [batch, 10], and `label`, INT64 [batch, 1].
"""

import jax
import jax.numpy as jnp
import numpy as np

from training import convolutional
from training.convolutional import he_weights
from training.graph import Graph

PIXEL_MAX = 16.0
CLASSES = 10


class Perceptron:
    """Dense layers with ReLU between them; without hidden layers, logistic regression."""

    SHIFTS = False  # train on shifted digits too

    def __init__(self, hidden):
        self.sizes = [64, *hidden, CLASSES]

    def init(self, rng):
        return [
            (he_weights(rng, (i, o), i), np.zeros(o, np.float32))
            for i, o in zip(self.sizes, self.sizes[1:])
        ]

    def logits(self, params, pixels):
        x = pixels / PIXEL_MAX
        for w, b in params[:-1]:
            x = jax.nn.relu(x @ w + b)
        return x @ params[-1][0] + params[-1][1]

    def write(self, graph: Graph, params):
        x = graph.add("Div", "image", graph.constant(np.float32(PIXEL_MAX)))
        for w, b in params[:-1]:
            x = graph.add("Relu", graph.dense(x, w, b))
        return graph.dense(x, *params[-1])


class ResidualCnn(convolutional.ResidualCnn):
    """On the digit enlarged `scale` times, down to a 4 by 4 grid.

    Training starts on small images, which are cheap, and ends on those it will serve.
    """

    SHIFTS = True

    def __init__(self, scale, channels, blocks):
        super().__init__((1, 8 * scale, 8 * scale), CLASSES, (3, 3), (4, 4), channels, blocks)
        self.scale = scale

    def logits(self, params, pixels, scale=None):
        scale = scale or self.scale
        x = (pixels / PIXEL_MAX).reshape(-1, 1, 8, 8)
        return self.scores(params, jnp.repeat(jnp.repeat(x, scale, axis=2), scale, axis=3))

    def write(self, graph: Graph, params):
        x = graph.add("Div", "image", graph.constant(np.float32(PIXEL_MAX)))
        return self.write_on(graph, params, graph.reshape(x, [-1, 1, 8, 8]))

    def write_on(self, graph: Graph, params, x):
        return self.write_scores(graph, params, graph.enlarge(x, self.scale))


class ShiftedMean(ResidualCnn):
    """Trained as its base; answers with the mean of what it makes of the digit and
    of its eight shifts by one pixel.
    """

    def write_on(self, graph: Graph, params, x):
        return convolutional.write_shifted_mean(
            graph, x, (1, 8, 8), CLASSES, (1, 1),
            lambda shifted: super(ShiftedMean, self).write_on(graph, params, shifted))
