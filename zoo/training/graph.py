"""Writes a network as ONNX, opset 13, weights inside."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Graph:
    """An ONNX graph from one input, FP32 [batch, values], to `probabilities` and `label` or to
    a `value`, built node by node.
    """

    def __init__(self, name, source="image", values=64, classes=10):
        self.name, self.nodes, self.weights = name, [], []
        self.source, self.values, self.classes = source, values, classes

    def add(self, operator, *inputs, output=None, **attributes):
        output = output or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def constant(self, value):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def dense(self, x, w, b):
        return self.add("Gemm", x, self.constant(w), self.constant(b))

    def conv(self, x, w, b):
        """Of stride 1; the output is as large as the input."""
        pads = [size // 2 for size in w.shape[2:]]
        return self.add("Conv", x, self.constant(w), self.constant(b), pads=pads * 2)

    def reshape(self, x, shape):
        return self.add("Reshape", x, self.constant(np.array(shape, np.int64)))

    def crop(self, x, corner, size):
        """The `size` pixels (of a square, or height and width) from the upper left `corner`."""
        start, end = np.array(corner, np.int64), np.array(corner, np.int64) + size
        axes = self.constant(np.array([2, 3], np.int64))
        return self.add("Slice", x, self.constant(start), self.constant(end), axes)

    def enlarge(self, x, scale):
        if scale == 1:
            return x
        scales = self.constant(np.array([1, 1, scale, scale], np.float32))
        return self.add("Resize", x, "", scales, mode="nearest", nearest_mode="floor",
                        coordinate_transformation_mode="asymmetric")

    def model(self, logits):
        """Of a classifier."""
        probabilities = self.add("Softmax", logits, axis=1, output="probabilities")
        self.add("ArgMax", probabilities, axis=1, keepdims=1, output="label")
        return self._model({"probabilities": (TensorProto.FLOAT, self.classes),
                            "label": (TensorProto.INT64, 1)})

    def regressor(self, value):
        """The model that answers with the value, [batch, 1]."""
        self.add("Identity", value, output="value")
        return self._model({"value": (TensorProto.FLOAT, 1)})

    def _model(self, outputs):
        tensor = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes, self.name,
            [tensor(self.source, TensorProto.FLOAT, ["batch", self.values])],
            [tensor(name, kind, ["batch", width]) for name, (kind, width) in outputs.items()],
            self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)],
                                  ir_version=7, producer_name="fermata")
        onnx.checker.check_model(model)
        return model
