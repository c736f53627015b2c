"""A small detector without anchors: for every fourth pixel how likely it is the middle of each
class, where exactly, and how large (Objects as Points, Zhou and others, 2019, section 3). Fully
convolutional, so one set of weights serves every input size."""

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from onnx import TensorProto, helper

from shapes.scenes import CLASSES
from training.convolutional import he_weights
from training.graph import Graph

STRIDE = 4  # pixels of a cell
MOST = 16  # boxes of a picture
WIDTHS = (12, 24, 32, 48)  # channels at a half, a quarter, an eighth and a sixteenth
OUTPUTS = len(CLASSES) + 4  # scores, the middle's place in its cell, the logarithm of the size


def init(rng):
    def conv(inputs, outputs, taps=3):
        return (he_weights(rng, (outputs, inputs, taps, taps), taps * taps * inputs),
                np.zeros(outputs, np.float32))

    a, b, c, d = WIDTHS
    head = conv(b, OUTPUTS, 1)
    head[1][:len(CLASSES)] = -4.0  # nearly every cell is none's
    return {"half": conv(3, a), "quarter": conv(a, b), "quarter_more": conv(b, b),
            "eighth": conv(b, c), "eighth_more": (conv(c, c), conv(c, c)),
            "sixteenth": conv(c, d), "sixteenth_more": (conv(d, d), conv(d, d)),
            "up_eighth": conv(d, c, 1), "up_quarter": conv(c, b, 1), "last": conv(b, b),
            "head": head}


class InJax:
    """The few operations of which the network is made."""

    def conv(self, x, weights, stride=1):
        w, b = weights
        border = w.shape[2] // 2
        y = jax.lax.conv_general_dilated(x, w, (stride, stride), [(border, border)] * 2)
        return y + b[None, :, None, None]

    def relu(self, x):
        return jax.nn.relu(x)

    def add(self, x, y):
        return x + y

    def double(self, x):
        return jnp.repeat(jnp.repeat(x, 2, axis=2), 2, axis=3)


class InOnnx:
    def __init__(self, graph):
        self.graph = graph

    def conv(self, x, weights, stride=1):
        w, b = (self.graph.constant(v) for v in weights)
        border = weights[0].shape[2] // 2
        return self.graph.add("Conv", x, w, b, pads=[border] * 4, strides=[stride] * 2)

    def relu(self, x):
        return self.graph.add("Relu", x)

    def add(self, x, y):
        return self.graph.add("Add", x, y)

    def double(self, x):
        return self.graph.enlarge(x, 2)


def raw(ops, p, x):
    """[batch, OUTPUTS, side / STRIDE, side / STRIDE] of x, [batch, 3, side, side] in [0, 1]."""
    def more(x, layers):
        return ops.relu(ops.add(x, ops.conv(ops.relu(ops.conv(x, layers[0])), layers[1])))

    quarter = ops.relu(ops.conv(ops.relu(ops.conv(x, p["half"], 2)), p["quarter"], 2))
    quarter = ops.relu(ops.add(quarter, ops.conv(quarter, p["quarter_more"])))
    eighth = more(ops.relu(ops.conv(quarter, p["eighth"], 2)), p["eighth_more"])
    sixteenth = more(ops.relu(ops.conv(eighth, p["sixteenth"], 2)), p["sixteenth_more"])
    eighth = ops.relu(ops.add(eighth, ops.double(ops.conv(sixteenth, p["up_eighth"]))))
    quarter = ops.relu(ops.add(quarter, ops.double(ops.conv(eighth, p["up_quarter"]))))
    return ops.conv(ops.relu(ops.conv(quarter, p["last"])), p["head"])


def targets(views, side):
    """For each view's rows: how much each cell is a middle [n, classes, cells, cells], and
    [n, 4, cells, cells] with a mask [n, cells, cells] of the cells that are."""
    cells = side // STRIDE
    heat = np.zeros((len(views), len(CLASSES), cells, cells), np.float32)
    place = np.zeros((len(views), 4, cells, cells), np.float32)
    mask = np.zeros((len(views), cells, cells), np.float32)
    grid = np.arange(cells)
    for i, rows in enumerate(views):
        for kind, x0, y0, x1, y1 in rows:
            size = np.maximum([x1 - x0, y1 - y0], 1e-3) * cells
            middle = np.array([x0 + x1, y0 + y1]) / 2 * cells
            column, row = np.minimum(middle.astype(int), cells - 1)
            spread = max(0.4, size.mean() / 7)
            bump = np.exp(-((grid - row)[:, None] ** 2 + (grid - column)[None] ** 2)
                          / (2 * spread * spread))
            heat[i, int(kind)] = np.maximum(heat[i, int(kind)], bump)
            place[i, :, row, column] = [*(middle - [column, row]), *np.log(size)]
            mask[i, row, column] = 1
    return heat, place, mask


def loss(params, pixels, heat, place, mask):
    """Equations 1 to 4 of the paper, sizes by their logarithms."""
    x = pixels.astype(jnp.float32).transpose(0, 3, 1, 2) / 255
    out = raw(InJax(), params, x)
    scores, rest = out[:, :len(CLASSES)], out[:, len(CLASSES):]
    found = jax.nn.sigmoid(scores)
    hit = heat >= 0.9999
    log_found, log_not = jax.nn.log_sigmoid(scores), jax.nn.log_sigmoid(-scores)
    focal = jnp.where(hit, (1 - found) ** 2 * log_found, (1 - heat) ** 4 * found ** 2 * log_not)
    count = jnp.maximum(mask.sum(), 1)
    off = (jnp.abs(rest - place) * mask[:, None]).sum()
    return (-focal.sum() + off) / count


def write(params, name, side):
    """The ONNX model for pictures of one size: boxes FP32 [batch, MOST, 4], x0, y0, x1, y1 in
    fractions of the picture, scores FP32 and classes INT64 [batch, MOST], the best first."""
    g, cells = Graph(name), side // STRIDE
    whole = lambda *values: g.constant(np.array(values, np.int64))
    number = lambda value: g.constant(np.array(value, np.float32))
    out = raw(InOnnx(g), params, "image")
    scores = g.add("Sigmoid", g.add("Slice", out, whole(0), whole(len(CLASSES)), whole(1)))
    around = g.add("MaxPool", scores, kernel_shape=[3, 3], pads=[1] * 4)
    peak = g.add("Cast", g.add("Equal", scores, around), to=TensorProto.FLOAT)
    flat = g.reshape(g.add("Mul", scores, peak), [0, -1])
    g.nodes.append(helper.make_node("TopK", [flat, whole(MOST)], ["scores", "at"], axis=1))
    g.add("Div", "at", whole(cells * cells), output="classes")
    cell = g.add("Mod", "at", whole(cells * cells))
    rest = g.reshape(g.add("Slice", out, whole(len(CLASSES)), whole(OUTPUTS), whole(1)),
                     [0, 4, cells * cells])
    four = g.add("Expand", g.add("Unsqueeze", cell, whole(1)), whole(1, 4, 1))
    found = g.add("Transpose", g.add("GatherElements", rest, four, axis=2), perm=[0, 2, 1])
    column, row = g.add("Mod", cell, whole(cells)), g.add("Div", cell, whole(cells))
    corner = g.add("Concat", *(g.add("Unsqueeze", g.add("Cast", v, to=TensorProto.FLOAT),
                                     whole(2)) for v in (column, row)), axis=2)
    middle = g.add("Add", corner, g.add("Slice", found, whole(0), whole(2), whole(2)))
    size = g.add("Exp", g.add("Slice", found, whole(2), whole(4), whole(2)))
    half = g.add("Mul", size, number(0.5))
    ends = g.add("Concat", g.add("Sub", middle, half), g.add("Add", middle, half), axis=2)
    g.add("Clip", g.add("Div", ends, number(cells)), number(0), number(1), output="boxes")
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        g.nodes, name, [info("image", TensorProto.FLOAT, ["batch", 3, side, side])],
        [info("boxes", TensorProto.FLOAT, ["batch", MOST, 4]),
         info("scores", TensorProto.FLOAT, ["batch", MOST]),
         info("classes", TensorProto.INT64, ["batch", MOST])], g.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7,
                              producer_name="fermata")
    onnx.checker.check_model(model)
    return model
