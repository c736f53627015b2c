"""The applications' networks: how each is made, trained through JAX and written as ONNX.

All take `features`, FP32 [batch, values], and see it as [batch, channels, height, width].
"""

import jax
import jax.numpy as jnp
import numpy as np

from variants.tasks import LEVELS
from training import convolutional
from training.convolutional import he_weights


class ResidualCnn(convolutional.ResidualCnn):
    """`source`: channels, height and width of the features. It sees averages over squares
    of `coarse` places each way: less detail, less noise, less work.
    """

    def __init__(self, source, classes, kernel, grid, channels, blocks, coarse=1):
        seen = (source[0], source[1] // coarse, source[2] // coarse)
        super().__init__(seen, classes, kernel, grid, channels, blocks)
        self.source, self.coarse = source, coarse

    def logits(self, params, features):
        channels, height, width = self.shape
        x = (features / LEVELS).reshape(-1, channels, height, self.coarse, width, self.coarse)
        return self.scores(params, x.mean(axis=(3, 5)))

    def write_scores(self, graph, params, x):
        if self.coarse > 1:
            square = [self.coarse, self.coarse]
            x = graph.add("AveragePool", x, kernel_shape=square, strides=square)
        return super().write_scores(graph, params, x)


class Recurrent:
    """Two directions of gated recurrent units over the height; the mean of their states."""

    def __init__(self, source, classes, units):
        self.source, self.classes, self.units = source, classes, units

    def init(self, rng):
        inputs, units = self.source[0] * self.source[2], self.units

        def direction():
            return {"w": he_weights(rng, (inputs, 3 * units), 2 * inputs),
                    "r": he_weights(rng, (units, 3 * units), 2 * units),
                    "b": np.zeros(6 * units, np.float32)}

        return {"there": direction(), "back": direction(),
                "head": (he_weights(rng, (2 * units, self.classes), 2 * units),
                         np.zeros(self.classes, np.float32))}

    def logits(self, params, features):
        x = self.steps((features / LEVELS).reshape(-1, *self.source))
        states = [self._mean_state(params["there"], x), self._mean_state(params["back"], x[::-1])]
        w, b = params["head"]
        return jnp.concatenate(states, axis=1) @ w + b

    def steps(self, x):
        """[step, batch, inputs], of x, [batch, channels, height, width]."""
        return x.transpose(2, 0, 1, 3).reshape(self.source[1], -1, self.source[0] * self.source[2])

    def write_steps(self, graph, x):
        channels, height, width = self.source
        x = graph.add("Transpose", x, perm=[2, 0, 1, 3])
        return graph.reshape(x, [height, -1, channels * width])

    def _mean_state(self, p, x):
        """ONNX's GRU with linear_before_reset, gates in its order: update, reset, hidden."""
        units = self.units
        ahead = x @ p["w"] + p["b"][:3 * units]

        def step(h, a):
            behind = h @ p["r"] + p["b"][3 * units:]
            gates = jax.nn.sigmoid(a[:, :2 * units] + behind[:, :2 * units])
            z, r = gates[:, :units], gates[:, units:]
            h = (1 - z) * jnp.tanh(a[:, 2 * units:] + r * behind[:, 2 * units:]) + z * h
            return h, h

        start = jnp.zeros((x.shape[1], units), x.dtype)
        return jax.lax.scan(step, start, ahead)[1].mean(axis=0)

    def write_scores(self, graph, params, x):
        x = self.write_steps(graph, x)
        both = [params["there"], params["back"]]
        weights = [graph.constant(np.stack([p[name].T for p in both])) for name in "wrb"]
        states = graph.add("GRU", x, *weights, hidden_size=self.units,
                           direction="bidirectional", linear_before_reset=1)
        mean = graph.add("ReduceMean", states, axes=[0], keepdims=0)  # [direction, batch, unit]
        mean = graph.add("Transpose", mean, perm=[1, 0, 2])
        return graph.dense(graph.reshape(mean, [-1, 2 * self.units]), *params["head"])


def write_mean(graph, members, params, reach):
    """The mean of the members' scores; each of all shifts by up to `reach` places over
    height and width, the edges repeated, if that is not (0, 0).
    """
    shape, classes = members[0].source, members[0].classes
    x = graph.add("Div", graph.source, graph.constant(np.float32(LEVELS)))
    x = graph.reshape(x, [-1, *shape])

    def mean(x):
        scores = [m.write_scores(graph, p, x) for m, p in zip(members, params)]
        return graph.add("Mean", *scores) if len(scores) > 1 else scores[0]

    if reach == (0, 0):
        return mean(x)
    return convolutional.write_shifted_mean(graph, x, shape, classes, reach, mean, mode="edge")
