#!/usr/bin/env python3
"""Writes the small ONNX files of tests/data. Needs Debian's python3-onnx.

    zoo/make_test_models.py tests/data
"""
import pathlib
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper


def tensor(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def save(folder, name, nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(initializers))
    model = helper.make_model(
        graph, producer_name="fermata", opset_imports=[helper.make_opsetid("", 13)]
    )
    model.ir_version = 7
    onnx.checker.check_model(model)
    path = folder / name / "1"
    path.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(path / "model.onnx"))


def add(folder):
    """Two inputs, two outputs, batches."""
    save(
        folder,
        "add",
        [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Sub", ["a", "b"], ["difference"])],
        [tensor("a", TensorProto.FLOAT, ["batch", 4]), tensor("b", TensorProto.FLOAT, ["batch", 4])],
        [tensor("sum", TensorProto.FLOAT, ["batch", 4]), tensor("difference", TensorProto.FLOAT, ["batch", 4])],
    )


def free_shape(folder):
    """Batches, and an item has any length."""
    save(
        folder,
        "free_shape",
        [helper.make_node("Neg", ["x"], ["y"])],
        [tensor("x", TensorProto.INT32, ["batch", "length"])],
        [tensor("y", TensorProto.INT32, ["batch", "length"])],
    )


def fixed(folder):
    """Does not batch."""
    save(
        folder,
        "fixed",
        [helper.make_node("Mul", ["x", "x"], ["y"])],
        [tensor("x", TensorProto.FLOAT, [1, 3])],
        [tensor("y", TensorProto.FLOAT, [1, 3])],
    )


def strings(folder):
    """BYTES in, BYTES out, untouched."""
    save(
        folder,
        "strings",
        [helper.make_node("Identity", ["text"], ["same"])],
        [tensor("text", TensorProto.STRING, ["batch", 1])],
        [tensor("same", TensorProto.STRING, ["batch", 1])],
    )


def gather(folder):
    """Fails on an index beyond the table: one bad item spoils a batch."""
    table = numpy_helper.from_array(numpy.arange(10, dtype=numpy.float32) * 10, "table")
    save(
        folder,
        "gather",
        [helper.make_node("Gather", ["table", "index"], ["value"], axis=0)],
        [tensor("index", TensorProto.INT64, ["batch", 1])],
        [tensor("value", TensorProto.FLOAT, ["batch", 1])],
        [table],
    )


def dense(folder):
    """A fully connected layer that takes some time."""
    random = numpy.random.default_rng(7)
    weight = numpy_helper.from_array(random.normal(size=(16, 8)).astype(numpy.float32), "w")
    bias = numpy_helper.from_array(numpy.zeros(8, dtype=numpy.float32), "b")
    save(
        folder,
        "dense",
        [helper.make_node("Gemm", ["x", "w", "b"], ["z"]), helper.make_node("Relu", ["z"], ["y"])],
        [tensor("x", TensorProto.FLOAT, ["n", 16])],
        [tensor("y", TensorProto.FLOAT, ["n", 8])],
        [weight, bias],
    )


def main():
    folder = pathlib.Path(sys.argv[1])
    for make in (add, free_shape, fixed, strings, gather, dense):
        make(folder / "repository")
    good = (folder / "repository" / "add" / "1" / "model.onnx").read_bytes()
    hostile = folder / "hostile"
    hostile.mkdir(parents=True, exist_ok=True)
    (hostile / "truncated.onnx").write_bytes(good[: len(good) // 2])
    (hostile / "garbage.onnx").write_bytes(bytes(range(256)) * 4)
    (hostile / "empty.onnx").write_bytes(b"")


if __name__ == "__main__":
    main()
