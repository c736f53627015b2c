"""A residual convolutional network: how it is made, run in JAX and written as ONNX."""

import math

import jax
import numpy as np


def he_weights(rng, shape, inputs):
    """He's initialisation for a layer of so many inputs."""
    return (rng.standard_normal(shape) * np.sqrt(2.0 / inputs)).astype(np.float32)


class ResidualCnn:
    """Ends in averages over the cells of a grid, so its weights fit inputs of any size.

    `shape`: channels, height, width of what it sees. `kernel` and `grid`: over height and width.
    """

    RESIDUAL = 0.5

    def __init__(self, shape, classes, kernel, grid, channels, blocks):
        self.shape, self.classes, self.kernel, self.grid = shape, classes, kernel, grid
        self.channels, self.blocks = channels, blocks

    def init(self, rng):
        taps, cells = math.prod(self.kernel), self.channels * math.prod(self.grid)

        def conv(inputs):
            return (he_weights(rng, (self.channels, inputs, *self.kernel), taps * inputs),
                    np.zeros(self.channels, np.float32))

        return {
            "stem": conv(self.shape[0]),
            "blocks": [(conv(self.channels), conv(self.channels)) for _ in range(self.blocks)],
            "head": (he_weights(rng, (cells, self.classes), cells),
                     np.zeros(self.classes, np.float32)),
        }

    def scores(self, params, x):
        """Of x, [batch, channels, height, width]."""
        x = jax.nn.relu(_conv(x, *params["stem"]))
        for first, second in params["blocks"]:
            x = x + self.RESIDUAL * _conv(jax.nn.relu(_conv(x, *first)), *second)
            x = jax.nn.relu(x)
        rows, columns = self.grid
        height, width = x.shape[2] // rows, x.shape[3] // columns
        x = x.reshape(-1, self.channels, rows, height, columns, width).mean(axis=(3, 5))
        w, b = params["head"]
        return x.reshape(-1, len(w)) @ w + b

    def write_scores(self, graph, params, x):
        x = graph.add("Relu", graph.conv(x, *params["stem"]))
        for first, (w, b) in params["blocks"]:
            branch = graph.add("Relu", graph.conv(x, *first))
            branch = graph.conv(branch, self.RESIDUAL * w, self.RESIDUAL * b)
            x = graph.add("Relu", graph.add("Add", x, branch))
        cell = [size // cells for size, cells in zip(self.shape[1:], self.grid)]
        x = graph.add("AveragePool", x, kernel_shape=cell, strides=cell)
        return graph.dense(graph.add("Flatten", x, axis=1), *params["head"])


def write_shifted_mean(graph, x, shape, classes, reach, write_scores, **padding):
    """The mean of the scores of x, [batch, *shape], shifted by all of -reach to reach places
    over height and width. As many times the work, and fewer errors. `padding`: attributes
    of ONNX's Pad for what comes in from outside.
    """
    border = graph.constant(np.array([0, 0, *reach, 0, 0, *reach], np.int64))
    x = graph.add("Pad", x, border, **padding)
    shifts = [graph.crop(x, (top, left), np.array(shape[1:]))
              for top in range(2 * reach[0] + 1) for left in range(2 * reach[1] + 1)]
    x = graph.reshape(graph.add("Concat", *shifts, axis=1), [-1, *shape])
    x = graph.reshape(write_scores(x), [-1, len(shifts), classes])
    return graph.add("ReduceMean", x, axes=[1], keepdims=0)


def _conv(x, w, b):
    y = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")
    return y + b[None, :, None, None]
