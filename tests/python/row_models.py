"""Small models of public kinds, whose first dimension, which each of them leaves free, counts items that are
answered apart, or does not."""

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

N = h.make_node
RANDOM = np.random.default_rng(5)
F, I = T.FLOAT, T.INT64


def value(name, shape, kind=F):
    return h.make_tensor_value_info(name, kind, shape)


def weight(name, *shape):
    return nh.from_array(RANDOM.standard_normal(shape).astype(np.float32), name)


def ints(name, *values):
    return nh.from_array(np.array(values, np.int64), name)


def made(nodes, inputs, outputs, weights=(), opset=17):
    """Inputs and outputs: (name, shape without the first dimension, type); shape None: none is said."""
    def declared(tensors):
        return [value(name, None if shape is None else ["n", *shape], *kind) for name, shape, *kind in tensors]
    graph = h.make_graph(nodes, "g", declared(inputs), declared(outputs), list(weights))
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)])
    model.ir_version = 8
    return model


def one(op, shape=(4,), out=None, weights=(), names=(), opset=17, **attributes):
    """A node of one input and output."""
    return made([N(op, ["x", *names], ["y"], **attributes)], [("x", shape)],
                [("y", shape if out is None else out)], weights, opset)


def recurrent(op, gates, batch_first):
    """Sequences of 5 features, 3 hidden. Sequence first: [n, 1, 5]; batch first: [n, 6, 5], transposed within."""
    weights = [weight("w", 1, gates * 3, 5), weight("r", 1, gates * 3, 3)]
    if not batch_first:
        nodes = [N(op, ["x", "w", "r"], ["z"], hidden_size=3), N("Squeeze", ["z", "one"], ["y"])]
        return made(nodes, [("x", (1, 5))], [("y", (1, 3))], [*weights, ints("one", 1)])
    nodes = [N("Transpose", ["x"], ["t"], perm=[1, 0, 2]), N(op, ["t", "w", "r"], ["", "h"], hidden_size=3),
             N("Squeeze", ["h", "zero"], ["y"])]
    return made(nodes, [("x", (6, 5))], [("y", (3,))], [*weights, ints("zero", 0)])


def attention(by_item):
    """Dot-product attention within an item's 5 tokens, or over the first dimension."""
    perm = [0, 2, 1] if by_item else [1, 0]
    nodes = [N("MatMul", ["x", "q"], ["a"]), N("Transpose", ["x"], ["t"], perm=perm), N("MatMul", ["a", "t"], ["s"]),
             N("Softmax", ["s"], ["p"], axis=-1), N("MatMul", ["p", "x"], ["y"])]
    shape = (5, 4) if by_item else (4,)
    return made(nodes, [("x", shape)], [("y", shape)], [weight("q", 4, 4)])


def quantised(dynamic):
    """An 8-bit linear layer, its input's scale fixed, or that of all that it is given."""
    weights = [nh.from_array(RANDOM.integers(0, 255, (4, 3)).astype(np.uint8), "w"),
               nh.from_array(np.uint8(128), "wz"), nh.from_array(np.float32(0.02), "ws")]
    if dynamic:
        first = [N("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])]
    else:
        weights += [nh.from_array(np.float32(0.05), "s"), nh.from_array(np.uint8(128), "z")]
        first = [N("QuantizeLinear", ["x", "s", "z"], ["q"])]
    nodes = [*first, N("MatMulInteger", ["q", "w", "z", "wz"], ["i"]), N("Cast", ["i"], ["f"], to=F),
             N("Mul", ["s", "ws"], ["both"]), N("Mul", ["f", "both"], ["y"])]
    return made(nodes, [("x", (4,))], [("y", (3,))], weights)


def loop():
    """Every item doubled three times."""
    body = h.make_graph([N("Add", ["v", "v"], ["w"]), N("Identity", ["c"], ["d"])], "b",
                        [value("i", [], I), value("c", [], T.BOOL), value("v", ["n", 4])],
                        [value("d", [], T.BOOL), value("w", ["n", 4])])
    return made([N("Loop", ["three", "", "x"], ["y"], body=body)], [("x", (4,))], [("y", (4,))],
                [nh.from_array(np.int64(3), "three")])


def scan(over_items):
    """A running sum, over the first dimension or over an item's own."""
    shape = ["m"] if over_items else ["n"]
    body = h.make_graph([N("Add", ["s", "e"], ["t"]), N("Identity", ["t"], ["u"])], "b",
                        [value("s", shape), value("e", shape)], [value("t", shape), value("u", shape)])
    zero = N("ReduceSum", ["z", "axis"], ["start"], keepdims=0)
    axis = 0 if over_items else 1
    nodes = [N("Mul", ["x", "zero"], ["z"]), zero,
             N("Scan", ["start", "x"], ["end", "y"], body=body, num_scan_inputs=1, scan_input_axes=[axis],
               scan_output_axes=[axis])]
    return made(nodes, [("x", (4,))], [("y", (4,))], [nh.from_array(np.float32(0), "zero"), ints("axis", axis)])


def convolution(training):
    nodes = [N("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
             N("BatchNormalization", ["c", "s", "b", "m", "v"], ["y", "rm", "rv"] if training else ["y"],
               training_mode=int(training))]
    ones = [nh.from_array(np.ones(2, np.float32), name) for name in ("s", "v")]
    return made(nodes, [("x", (3, 8, 8))], [("y", (2, 8, 8))],
                [weight("w", 2, 3, 3, 3), weight("b", 2), weight("m", 2), *ones])


def graph_convolution():
    return made([N("MatMul", ["a", "x"], ["m"]), N("MatMul", ["m", "w"], ["y"])], [("x", (4,)), ("a", ("n",))],
                [("y", (3,))], [weight("w", 4, 3)])


def point_cloud():
    nodes = [N("MatMul", ["x", "w"], ["f"]), N("ReduceMax", ["f"], ["g"], axes=[0], keepdims=1),
             N("Sub", ["f", "g"], ["y"])]
    return made(nodes, [("x", (3,))], [("y", (6,))], [weight("w", 3, 6)])


def centred():
    return made([N("ReduceMean", ["x"], ["m"], axes=[0], keepdims=1), N("Sub", ["x", "m"], ["y"])], [("x", (4,))],
                [("y", (4,))])


def numbered():
    """Adds to every row its place."""
    nodes = [N("Shape", ["x"], ["s"], start=0, end=1), N("Squeeze", ["s"], ["k"]),
             N("Range", ["from", "k", "step"], ["r"]), N("Cast", ["r"], ["f"], to=F),
             N("Unsqueeze", ["f", "one"], ["c"]), N("Add", ["x", "c"], ["y"])]
    return made(nodes, [("x", (4,))], [("y", (4,))],
                [nh.from_array(np.int64(0), "from"), nh.from_array(np.int64(1), "step"), ints("one", 1)])


def sorted_rows(axis):
    nodes = [N("Shape", ["x"], ["k"], start=axis, end=axis + 1), N("TopK", ["x", "k"], ["y", "i"], axis=axis)]
    return made(nodes, [("x", (4,))], [("y", (4,)), ("i", (4,), I)])


def reversed_rows():
    return one("Slice", weights=[ints("from", -1), ints("to", -(2 ** 40)), ints("axis", 0), ints("step", -1)],
               names=("from", "to", "axis", "step"))


def neighbours():
    """Every row takes the one before it, the first the last."""
    nodes = [N("Slice", ["x", "m1", "end", "zero"], ["a"]), N("Slice", ["x", "zero", "m1", "zero"], ["b"]),
             N("Concat", ["a", "b"], ["y"], axis=0)]
    return made(nodes, [("x", (4,))], [("y", (4,))], [ints("m1", -1), ints("end", 2 ** 40), ints("zero", 0)])


def embedded(depth=2):
    nodes = [N("Gather", ["table", "x"], ["e"]), N("ReduceMean", ["e"], ["y"], axes=[1], keepdims=0)]
    return made(nodes, [("x", (6,), I)], [("y", (3,))], [weight("table", depth, 3)])


def one_hot():
    return made([N("OneHot", ["x", "depth", "values"], ["y"])], [("x", (), I)], [("y", (2,))],
                [nh.from_array(np.int64(2), "depth"), nh.from_array(np.array([0, 1], np.float32), "values")])


def chosen():
    """A row's values where another input's are true."""
    return made([N("Where", ["c", "x", "z"], ["y"])], [("c", (4,), T.BOOL), ("x", (4,))], [("y", (4,))],
                [nh.from_array(np.float32(0), "z")])


def gather_first():
    """Every row less the first."""
    return made([N("Gather", ["x", "zero"], ["f"], axis=0), N("Sub", ["x", "f"], ["y"])], [("x", (4,))],
                [("y", (4,))], [ints("zero", 0)])


def picks_class():
    return made([N("MatMul", ["x", "w"], ["s"]), N("ArgMax", ["s"], ["y"], axis=1, keepdims=0)], [("x", (4,))],
                [("y", (), I)], [weight("w", 4, 5)])


def picks_row():
    """How each row stands to the largest: whole numbers."""
    nodes = [N("ReduceMax", ["x"], ["m"], axes=[0], keepdims=1), N("Equal", ["x", "m"], ["e"]),
             N("Cast", ["e"], ["y"], to=I)]
    return made(nodes, [("x", (4,))], [("y", (4,), I)])


def similarity():
    return made([N("Einsum", ["x", "x"], ["y"], equation="ni,mi->nm")], [("x", (4,))], [("y", ("n",))])


def text():
    return made([N("Identity", ["x"], ["y"])], [("x", (1,), T.STRING)], [("y", (1,), T.STRING)])


def with_nan():
    return one("Log")


def half():
    return made([N("MatMul", ["x", "w"], ["y"])], [("x", (64,), T.FLOAT16)], [("y", (8,), T.FLOAT16)],
                [nh.from_array(RANDOM.standard_normal((64, 8)).astype(np.float16), "w")])


def deep(layers=12):
    nodes, weights, last = [], [], "x"
    for k in range(layers):
        weights.append(nh.from_array(RANDOM.standard_normal((64, 64)).astype(np.float32) / 6, f"w{k}"))
        nodes += [N("MatMul", [last, f"w{k}"], [f"a{k}"]), N("Tanh", [f"a{k}"], [f"h{k}"])]
        last = f"h{k}"
    nodes.append(N("Identity", [last], ["y"]))
    return made(nodes, [("x", (64,))], [("y", (64,))], weights)


def layer_norm():
    return one("LayerNormalization", (8,), weights=[weight("s", 8), weight("b", 8)], names=("s", "b"), axis=-1)


def duplicates():
    return made([N("Unique", ["x"], ["y"], axis=0, sorted=1)], [("x", (1,), I)], [("y", (1,), I)])


def nonzero():
    return made([N("NonZero", ["x"], ["y"])], [("x", (4,))], [("y", ("k",), I)])


def flattened():
    """Gives one row whatever it gets."""
    return made([N("Reshape", ["x", "to"], ["y"])], [("x", (4,))], [("y", ("k",))], [ints("to", 1, -1)])


def pairs():
    """Rows of two items, so that the output has half as many."""
    return made([N("Reshape", ["x", "to"], ["y"])], [("x", (4,))], [("y", (8,))], [ints("to", -1, 8)])


# name: (how its rows stand to each other, what makes the model). Of those of DECLARED the file itself says that
# an output does not lead with as many items.
APART, TOGETHER, SLIGHTLY, UNTRIED, DECLARED = "apart", "together", "slightly", "untried", "declared"
MODELS = {
    "matmul": (APART, lambda: one("MatMul", (4,), (3,), [weight("w", 4, 3)], ["w"])),
    "deep": (APART, deep),
    "half": (APART, half),
    "convolution": (APART, lambda: convolution(False)),
    "batch-norm-training": (TOGETHER, lambda: convolution(True)),
    "layer-norm": (APART, layer_norm),
    "softmax-last": (APART, lambda: one("Softmax", axis=-1)),
    "softmax-first": (TOGETHER, lambda: one("Softmax", axis=0)),
    "log-softmax-first": (TOGETHER, lambda: one("LogSoftmax", axis=0)),
    "cumsum-last": (APART, lambda: one("CumSum", weights=[nh.from_array(np.int64(1), "a")], names=["a"])),
    "cumsum-first": (TOGETHER, lambda: one("CumSum", weights=[nh.from_array(np.int64(0), "a")], names=["a"])),
    "cumsum-first-reversed": (TOGETHER, lambda: one("CumSum", weights=[nh.from_array(np.int64(0), "a")],
                                                    names=["a"], reverse=1)),
    "rnn-sequence-first": (TOGETHER, lambda: recurrent("RNN", 1, False)),
    "rnn-batch-first": (APART, lambda: recurrent("RNN", 1, True)),
    "lstm-sequence-first": (TOGETHER, lambda: recurrent("LSTM", 4, False)),
    "lstm-batch-first": (APART, lambda: recurrent("LSTM", 4, True)),
    "gru-sequence-first": (TOGETHER, lambda: recurrent("GRU", 3, False)),
    "gru-batch-first": (APART, lambda: recurrent("GRU", 3, True)),
    "centred": (TOGETHER, centred),
    "point-cloud": (TOGETHER, point_cloud),
    "graph-convolution": (TOGETHER, graph_convolution),
    "attention-first": (TOGETHER, lambda: attention(False)),
    "attention-within": (APART, lambda: attention(True)),
    "top-k-first": (TOGETHER, lambda: sorted_rows(0)),
    "top-k-last": (APART, lambda: sorted_rows(1)),
    "non-zero": (DECLARED, nonzero),
    "unique": (TOGETHER, duplicates),
    "gather-first": (TOGETHER, gather_first),
    "reversed": (TOGETHER, reversed_rows),
    "neighbours": (TOGETHER, neighbours),
    "numbered": (TOGETHER, numbered),
    "embedded": (APART, embedded),
    "one-hot": (APART, one_hot),
    "chosen": (APART, chosen),
    "class": (APART, picks_class),
    "largest-row": (TOGETHER, picks_row),
    "similarity": (TOGETHER, similarity),
    "flattened": (DECLARED, flattened),
    "pairs": (UNTRIED, pairs),
    "quantised": (APART, lambda: quantised(False)),
    "quantised-dynamically": (SLIGHTLY, lambda: quantised(True)),
    "loop": (APART, loop),
    "scan-first": (TOGETHER, lambda: scan(True)),
    "scan-within": (APART, lambda: scan(False)),
    "logarithm": (APART, with_nan),
    "text": (APART, text),
    "random": (UNTRIED, lambda: made([N("RandomUniformLike", ["x"], ["r"]), N("Add", ["x", "r"], ["y"])],
                                     [("x", (4,))], [("y", (4,))])),
    "dropout-training": (UNTRIED, lambda: one("Dropout", (64,), weights=[nh.from_array(np.float32(0.5), "p"),
                                                                  nh.from_array(np.bool_(True), "t")],
                                              names=("p", "t"))),
}


def write(folder, model, config=None):
    (folder / "1").mkdir(parents=True)
    onnx.save(model, folder / "1" / "model.onnx")
    if config is not None:
        (folder / "config.pbtxt").write_text(config)
