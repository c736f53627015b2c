"""The digits networks: how each is made, trained through JAX and written as ONNX.

All take `image`, FP32 [batch, 64], the 8 by 8 grey values 0 to 16 row by row, and
give `probabilities`, FP32 [batch, 10], and `label`, INT64 [batch, 1].
"""

import jax
import jax.numpy as jnp
import numpy as np

from digits.graph import Graph

PIXEL_MAX = 16.0
CLASSES = 10


def _weights(rng, shape, inputs):
    return (rng.standard_normal(shape) * np.sqrt(2.0 / inputs)).astype(np.float32)


class Perceptron:
    """Dense layers with ReLU between them; without hidden layers, logistic regression."""

    SHIFTS = False  # train on shifted digits too

    def __init__(self, hidden):
        self.sizes = [64, *hidden, CLASSES]

    def init(self, rng):
        return [
            (_weights(rng, (i, o), i), np.zeros(o, np.float32))
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


class ResidualCnn:
    """A residual convolutional network on the digit enlarged `scale` times.

    It ends in averages over the cells of a 4 by 4 grid, so its weights fit any scale:
    training starts on small images, which are cheap, and ends on those it will serve.
    """

    SHIFTS = True
    RESIDUAL = 0.5
    GRID = 4

    def __init__(self, scale, channels, blocks):
        self.scale, self.channels, self.blocks = scale, channels, blocks

    def init(self, rng):
        c, cells = self.channels, self.channels * self.GRID**2

        def conv(inputs):
            return (_weights(rng, (c, inputs, 3, 3), 9 * inputs), np.zeros(c, np.float32))

        return {
            "stem": conv(1),
            "blocks": [(conv(c), conv(c)) for _ in range(self.blocks)],
            "head": (_weights(rng, (cells, CLASSES), cells), np.zeros(CLASSES, np.float32)),
        }

    def logits(self, params, pixels, scale=None):
        scale = scale or self.scale
        x = (pixels / PIXEL_MAX).reshape(-1, 1, 8, 8)
        x = jnp.repeat(jnp.repeat(x, scale, axis=2), scale, axis=3)
        x = jax.nn.relu(_conv(x, *params["stem"]))
        for first, second in params["blocks"]:
            x = x + self.RESIDUAL * _conv(jax.nn.relu(_conv(x, *first)), *second)
            x = jax.nn.relu(x)
        w, b = params["head"]
        grid, cell = self.GRID, 8 * scale // self.GRID
        x = x.reshape(-1, self.channels, grid, cell, grid, cell).mean(axis=(3, 5))
        return x.reshape(-1, self.channels * grid * grid) @ w + b

    def write(self, graph: Graph, params):
        x = graph.add("Div", "image", graph.constant(np.float32(PIXEL_MAX)))
        return self.write_on(graph, params, graph.reshape(x, [-1, 1, 8, 8]))

    def write_on(self, graph: Graph, params, x):
        if self.scale > 1:
            x = graph.enlarge(x, self.scale)
        x = graph.add("Relu", graph.conv(x, *params["stem"]))
        for first, (w, b) in params["blocks"]:
            branch = graph.add("Relu", graph.conv(x, *first))
            branch = graph.conv(branch, self.RESIDUAL * w, self.RESIDUAL * b)
            x = graph.add("Relu", graph.add("Add", x, branch))
        cell = 8 * self.scale // self.GRID
        x = graph.add("AveragePool", x, kernel_shape=[cell, cell], strides=[cell, cell])
        return graph.dense(graph.add("Flatten", x, axis=1), *params["head"])


class ShiftedMean(ResidualCnn):
    """Trained as its base; answers with the mean of what it makes of the digit and
    of its eight shifts by one pixel. Nine times the work, and fewer errors.
    """

    def write(self, graph: Graph, params):
        x = graph.add("Div", "image", graph.constant(np.float32(PIXEL_MAX)))
        x = graph.reshape(x, [-1, 1, 8, 8])
        border = graph.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
        x = graph.add("Pad", x, border)
        shifts = [graph.crop(x, (top, left), 8) for top in range(3) for left in range(3)]
        x = graph.reshape(graph.add("Concat", *shifts, axis=1), [-1, 1, 8, 8])
        x = graph.reshape(self.write_on(graph, params, x), [-1, len(shifts), CLASSES])
        return graph.add("ReduceMean", x, axes=[1], keepdims=0)


def _conv(x, w, b):
    y = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")
    return y + b[None, :, None, None]
