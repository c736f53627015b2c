"""A slimmable network with an early exit: how it runs in JAX, and how it is written as ONNX.

One set of weights; a narrower network uses the first channels of each layer (Slimmable Neural
Networks, Yu and others, 2019, section 3). Scales, biases and heads, which are small, are each
level's own. The stages after an exit may be wider than those before it.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from onnx import TensorProto, helper

from training.convolutional import he_weights
from training.graph import Graph

CLASSES = 10
RESIDUAL = 0.5


@dataclasses.dataclass(frozen=True)
class Level:
    """One of the networks in the network: the side of its pictures and its share of channels."""

    side: int
    share: float


LEVELS = (Level(16, 0.25), Level(20, 0.5), Level(24, 0.75), Level(28, 1.0))
# By stage and layer: inputs, outputs, stride; two layers in brackets are a residual block.
STAGES = (
    ((1, 16, 1), (16, 24, 2), (24, 24, 1)),
    ((24, 40, 1), ((40, 40, 1), (40, 40, 1))),
)


def channels(whole, level):
    return whole if whole == 1 else round(whole * LEVELS[level].share)


def layers_of(stage):
    return [layer for part in STAGES[stage]
            for layer in (part if isinstance(part[0], tuple) else (part,))]


def init(rng):
    def conv(inputs, outputs, _):
        table = (len(LEVELS), outputs)
        fewer = np.array([inputs / channels(inputs, level) for level in range(len(LEVELS))])
        return {"w": he_weights(rng, (outputs, inputs, 3, 3), 9 * inputs),
                "scale": np.sqrt(fewer)[:, None].repeat(outputs, 1).astype(np.float32),
                "bias": np.zeros(table, np.float32)}

    def head(stage):
        inputs = layers_of(stage)[-1][1]
        return {"w": rng.normal(0, 0.1, (len(LEVELS), 2, inputs, CLASSES)).astype(np.float32),
                "b": np.zeros((len(LEVELS), CLASSES), np.float32)}

    return [{"layers": [conv(*layer) for layer in layers_of(s)], "head": head(s)}
            for s in range(len(STAGES))]


class InJax:
    """The operations of a stage at one level, in JAX."""

    def __init__(self, level):
        self.level = level

    def conv(self, x, layer, stride):
        out = channels(layer["w"].shape[0], self.level)
        w = layer["w"][:out, :x.shape[1]] * layer["scale"][self.level, :out, None, None, None]
        y = jax.lax.conv_general_dilated(x, w, (stride, stride), [(1, 1), (1, 1)])
        return y + layer["bias"][self.level, :out][None, :, None, None]

    def relu(self, x):
        return jax.nn.relu(x)

    def residual(self, x, y):
        return x + RESIDUAL * y

    def head(self, x, head):
        count, of = x.shape[1], self.level
        return (x.mean(axis=(2, 3)) @ head["w"][of, 0, :count]
                + x.max(axis=(2, 3)) @ head["w"][of, 1, :count] + head["b"][of])


class InOnnx:
    """The same as nodes of a graph, the level an input of it: `width`, INT64 [1]."""

    def __init__(self, graph):
        self.graph = graph

    def constant(self, value):
        return self.graph.constant(np.asarray(value))

    def whole(self, *values):
        return self.constant(np.array(values, np.int64))

    def of_level(self, table):
        """The level's row."""
        row = self.graph.add("Gather", self.constant(table), "width", axis=0)
        return self.graph.add("Squeeze", row, self.whole(0))

    def count_of(self, x):
        return self.graph.add("Slice", self.graph.add("Shape", x), self.whole(1), self.whole(2))

    def first(self, x, count, axis=0):
        return self.graph.add("Slice", x, self.whole(0), count, self.whole(axis))

    def conv(self, x, layer, stride):
        g, full = self.graph, layer["w"].shape[0]
        out = g.add("Gather", self.whole(*(channels(full, v) for v in range(len(LEVELS)))), "width")
        inputs = self.count_of(x) if layer["w"].shape[1] > 1 else self.whole(1)
        ends = g.add("Concat", out, inputs, axis=0)
        w = g.add("Slice", self.constant(layer["w"]), self.whole(0, 0), ends, self.whole(0, 1))
        scale = self.first(self.of_level(layer["scale"].reshape(len(LEVELS), full, 1, 1, 1)), out)
        bias = self.first(self.of_level(layer["bias"]), out)
        return g.add("Conv", x, g.add("Mul", w, scale), bias, kernel_shape=[3, 3], pads=[1] * 4,
                     strides=[stride] * 2)

    def relu(self, x):
        return self.graph.add("Relu", x)

    def residual(self, x, y):
        return self.graph.add("Add", x, self.graph.add("Mul", y, self.constant(
            np.float32(RESIDUAL))))

    def head(self, x, head):
        g, count = self.graph, self.count_of(x)
        scores = self.of_level(head["b"])
        for pooled, part in (("GlobalAveragePool", 0), ("GlobalMaxPool", 1)):
            flat = g.add("Flatten", g.add(pooled, x), axis=1)
            scores = g.add("Add", g.add("MatMul", flat, self.first(self.of_level(
                head["w"][:, part]), count)), scores)
        return scores


class InOneLevel(InOnnx):
    """A level by itself, as a model that knows no other: its weights are constants."""

    def __init__(self, graph, level):
        super().__init__(graph)
        self.plain = InJax(level)

    def conv(self, x, layer, stride):
        level, full = self.plain.level, layer["w"].shape
        out, count = channels(full[0], level), channels(full[1], level)
        w = layer["w"][:out, :count] * layer["scale"][level, :out, None, None, None]
        return self.graph.add("Conv", x, self.constant(w), self.constant(
            layer["bias"][level, :out]), kernel_shape=[3, 3], pads=[1] * 4, strides=[stride] * 2)

    def of_level(self, table):
        return self.constant(table[self.plain.level])


def features(ops, params, x, stage):
    weights = iter(params[stage]["layers"])
    for part in STAGES[stage]:
        if isinstance(part[0], tuple):
            y = x
            for i, layer in enumerate(part):
                y = ops.conv(y if i == 0 else ops.relu(y), next(weights), layer[2])
            x = ops.relu(ops.residual(x, y))
        else:
            x = ops.relu(ops.conv(x, next(weights), part[2]))
    return x


def logits(params, pixels, levels):
    """[stages, batch, CLASSES] of pixels, [batch, side, side] in [0, 1]; a level by stage."""
    x, scores = pixels[:, None], []
    for stage, level in enumerate(levels):
        x = features(InJax(level), params, x, stage)
        scores.append(InJax(level).head(x, params[stage]["head"]))
    return scores


def at_side(pixels, level):
    side = LEVELS[level].side
    return jax.image.resize(pixels, (len(pixels), side, side), "linear")


def sureness(scores):
    """What the decision to exit looks at: logarithms of the probabilities, the highest first."""
    return jnp.sort(jax.nn.log_softmax(scores), axis=1)[:, ::-1]


def _answer(graph, scores):
    graph.add("Softmax", scores, axis=1, output="probabilities")
    graph.add("ArgMax", "probabilities", axis=1, keepdims=1, output="label")
    return [("probabilities", TensorProto.FLOAT, ["batch", CLASSES]),
            ("label", TensorProto.INT64, ["batch", 1])]


def _grey(ops):
    return ops.graph.add("ReduceMean", "image", axes=[1], keepdims=1)


def _model(graph, inputs, outputs):
    info = helper.make_tensor_value_info
    made = helper.make_model(
        helper.make_graph(graph.nodes, graph.name, [info(*i) for i in inputs],
                          [info(*o) for o in outputs], graph.weights),
        opset_imports=[helper.make_opsetid("", 13)], ir_version=7, producer_name="fermata")
    onnx.checker.check_model(made)
    return made


def write_stage(name, params, stage, decision):
    """The ONNX model of one stage at any level. The first takes `image`, FP32 [batch, 3, side,
    side] in [0, 1], the others `features`; all take `width`, the number of the level. `decision`:
    (weights [levels, CLASSES], biases [levels]) of the exit's logistic regression."""
    graph = Graph(name)
    ops = InOnnx(graph)
    last = stage + 1 == len(STAGES)
    source = ("image", TensorProto.FLOAT, ["batch", 3, "height", "width"])
    if stage > 0:
        source = ("features", TensorProto.FLOAT, ["batch", "channels", "height", "width"])
    x = features(ops, params, _grey(ops) if stage == 0 else "features", stage)
    scores = ops.head(x, params[stage]["head"])
    outputs = _answer(graph, scores)
    if not last:
        weights, biases = decision
        graph.add("Identity", x, output="features")
        sorted_ = f"sorted{stage}"
        graph.nodes.append(helper.make_node("TopK", [graph.add("LogSoftmax", scores, axis=1),
                                                     ops.whole(CLASSES)], [sorted_, "places"],
                                            axis=1))
        sure = graph.add("MatMul", sorted_, ops.of_level(
            np.asarray(weights, np.float32)[:, :, None]))
        graph.add("Sigmoid", graph.add("Add", sure, ops.of_level(
            np.asarray(biases, np.float32)[:, None])), output="confidence")
        outputs += [("confidence", TensorProto.FLOAT, ["batch", 1]),
                    ("features", TensorProto.FLOAT, ["batch", "channels", "rows", "columns"])]
    return _model(graph, [source, ("width", TensorProto.INT64, [1])], outputs)


def write_level(name, params, level):
    """One level as a model of its own, without exits."""
    graph = Graph(name)
    ops, side = InOneLevel(graph, level), LEVELS[level].side
    x = _grey(ops)
    for stage in range(len(STAGES)):
        x = features(ops, params, x, stage)
    outputs = _answer(graph, ops.head(x, params[-1]["head"]))
    return _model(graph, [("image", TensorProto.FLOAT, ["batch", 3, side, side])], outputs)
