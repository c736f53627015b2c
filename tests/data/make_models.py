#!/usr/bin/env python3
"""Writes the tiny models of tests/data: .deps/train/bin/python tests/data/make_models.py

identity-TYPE gives its input `x` back as `y`, for each datatype of the protocol,
batched along the first dimension. pair has two inputs and two outputs, their
sum and their difference. whole does not batch: its shape is fixed. gather fails
on an index beyond its table, so that one bad item spoils a batch. dense is a
fully connected layer. The names with base- are of one ensemble, all from `x` to `y` of two
numbers: as they are, their logarithms (NaN below 0), and their squares from a table (it fails
on numbers beyond 9). score, weights and meta go with them: how large the mean is, by a tenth; what
models to ask; and a weighted sum of three models' outputs. divide divides integers.
dynamic/ holds a dynamic network of two stages, each of which multiplies by width + 1, the second by ten
too; the first number of an item says how sure the exit is.
hostile/ holds files that are no models, and folders of some that are: endless runs for ever where its
input is above zero, always-endless whatever it is; deaf compares as many boxes as its input says, in one
operator that does not hear that it should stop; glutton takes a gibibyte.
"""

import pathlib

import numpy
from onnx import TensorProto, checker, helper, numpy_helper

REPOSITORY = pathlib.Path(__file__).resolve().parent / "repository"
DATATYPES = {
    "bool": TensorProto.BOOL, "uint8": TensorProto.UINT8, "uint16": TensorProto.UINT16,
    "uint32": TensorProto.UINT32, "uint64": TensorProto.UINT64, "int8": TensorProto.INT8,
    "int16": TensorProto.INT16, "int32": TensorProto.INT32, "int64": TensorProto.INT64,
    "fp16": TensorProto.FLOAT16, "fp32": TensorProto.FLOAT, "fp64": TensorProto.DOUBLE,
    "bf16": TensorProto.BFLOAT16, "bytes": TensorProto.STRING,
}


def write(name, nodes, inputs, outputs, constants=(), repository=REPOSITORY, file="model.onnx"):
    def values(described):
        return [helper.make_tensor_value_info(*value) for value in described]

    graph = helper.make_graph(nodes, name, values(inputs), values(outputs),
                              [numpy_helper.from_array(array, key) for key, array in constants])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    checker.check_model(model)
    folder = repository / name / "1"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_bytes(model.SerializeToString())


def write_dynamic():
    two, width = (TensorProto.FLOAT, ["batch", 2]), ("width", TensorProto.INT64, [1])
    more = [helper.make_node("Cast", ["width"], ["w"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["w", "one"], ["factor"])]
    one = ("one", numpy.array([1], numpy.float32))
    write("net", [*more, helper.make_node("Mul", ["x", "factor"], ["y"]),
                  helper.make_node("Identity", ["y"], ["features"]),
                  helper.make_node("Slice", ["x", "start", "end", "end"], ["confidence"])],
          [("x", *two), width], [("y", *two), ("confidence", TensorProto.FLOAT, ["batch", 1]),
                                 ("features", *two)],
          [one, ("start", numpy.array([0])), ("end", numpy.array([1]))],
          REPOSITORY.parent / "dynamic")
    write("net", [*more, helper.make_node("Mul", ["features", "factor"], ["z"]),
                  helper.make_node("Mul", ["z", "ten"], ["y"])],
          [("features", *two), width], [("y", *two)],
          [one, ("ten", numpy.array([10], numpy.float32))],
          REPOSITORY.parent / "dynamic", "stage-2.onnx")


def write_ensemble():
    two = (TensorProto.FLOAT, ["batch", 2])
    write("base-plain", [helper.make_node("Identity", ["x"], ["y"])], [("x", *two)], [("y", *two)])
    write("base-log", [helper.make_node("Log", ["x"], ["y"])], [("x", *two)], [("y", *two)])
    write("base-table", [helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64),
                         helper.make_node("Gather", ["table", "i"], ["y"], axis=0)],
          [("x", *two)], [("y", *two)], [("table", numpy.arange(10, dtype=numpy.float32) ** 2)])
    write("score", [helper.make_node("ReduceMean", ["x"], ["mean"], axes=[1], keepdims=1),
                    helper.make_node("Mul", ["mean", "tenth"], ["score"])],
          [("x", *two)], [("score", TensorProto.FLOAT, ["batch", 1])],
          [("tenth", numpy.array(0.1, numpy.float32))])
    write("weights", [helper.make_node("MatMul", ["x", "w"], ["weights"])],
          [("x", *two)], [("weights", TensorProto.FLOAT, ["batch", 3])],
          [("w", numpy.array([[0.8, 0.2, 0], [0, 0.5, 0.5]], numpy.float32))])
    write("meta", [helper.make_node("MatMul", ["outputs", "w"], ["y"])],
          [("outputs", TensorProto.FLOAT, ["batch", 6])], [("y", *two)],
          [("w", numpy.array([[3, 0], [0, 3], [2, 0], [0, 2], [1, 0], [0, 1]], numpy.float32))])


def write_endless(name, condition):
    one = (TensorProto.FLOAT, ["batch", 1])
    truth = (TensorProto.BOOL, [])
    again = [helper.make_node("Identity", ["held"], ["held_again"])]
    body = helper.make_graph(
        again + condition("held", "again"), "body",
        [helper.make_tensor_value_info(*v) for v in
         [("turn", TensorProto.INT64, []), ("going", *truth), ("held", *one)]],
        [helper.make_tensor_value_info(*v) for v in [("again", *truth), ("held_again", *one)]])
    write(name, condition("x", "first") + [helper.make_node("Loop", ["", "first", "x"], ["y"],
                                                            body=body)],
          [("x", *one)], [("y", *one)], repository=REPOSITORY.parent / "hostile")


def above_zero(of, name):
    return [helper.make_node("ReduceMax", [of], [name + "_most"], keepdims=0),
            helper.make_node("Sign", [name + "_most"], [name + "_sign"]),
            helper.make_node("Cast", [name + "_sign"], [name], to=TensorProto.BOOL)]


def always(of, name):
    return [helper.make_node("Shape", [of], [name + "_shape"]),
            helper.make_node("ReduceMin", [name + "_shape"], [name + "_least"], keepdims=0),
            helper.make_node("Cast", [name + "_least"], [name], to=TensorProto.BOOL)]


def write_deaf():
    one = (TensorProto.FLOAT, ["batch", 1])
    floats = {"zero": 0, "step": 1, "half": 0.5, "share": 0.5, "least": -1}
    lists = {"axis": [1], "first": [0], "shape": [1, 1, -1], "all": [1 << 40]}
    write("deaf", [helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
                   helper.make_node("Add", ["most", "step"], ["end"]),
                   helper.make_node("Range", ["zero", "end", "step"], ["low"]),
                   helper.make_node("Add", ["low", "half"], ["high"]),
                   helper.make_node("Unsqueeze", ["low", "axis"], ["from"]),
                   helper.make_node("Unsqueeze", ["high", "axis"], ["to"]),
                   helper.make_node("Concat", ["from", "from", "to", "to"], ["corners"], axis=1),
                   helper.make_node("Unsqueeze", ["corners", "first"], ["boxes"]),
                   helper.make_node("Reshape", ["low", "shape"], ["scores"]),
                   helper.make_node("NonMaxSuppression",
                                    ["boxes", "scores", "all", "share", "least"], ["kept"]),
                   helper.make_node("Cast", ["kept"], ["found"], to=TensorProto.FLOAT),
                   helper.make_node("ReduceMin", ["found"], ["least_found"], keepdims=0),
                   helper.make_node("Add", ["x", "least_found"], ["y"])],
          [("x", *one)], [("y", *one)],
          [(name, numpy.array(value, numpy.float32)) for name, value in floats.items()] +
          [(name, numpy.array(value)) for name, value in lists.items()],
          REPOSITORY.parent / "hostile")


def write_glutton():
    one = (TensorProto.FLOAT, ["batch", 1])
    write("glutton", [helper.make_node("Shape", ["x"], ["shape"]),
                      helper.make_node("Mul", ["shape", "times"], ["size"]),
                      helper.make_node("ConstantOfShape", ["size"], ["all"]),
                      helper.make_node("ReduceMax", ["all"], ["most"], keepdims=0),
                      helper.make_node("Add", ["x", "most"], ["y"])],
          [("x", *one)], [("y", *one)], [("times", numpy.array([1 << 14, 1 << 14]))],
          REPOSITORY.parent / "hostile")


def write_that_misbehave():
    row = (TensorProto.INT32, ["batch", 1])
    write("divide", [helper.make_node("Div", ["a", "b"], ["y"])], [("a", *row), ("b", *row)],
          [("y", *row)])
    write_endless("endless", above_zero)
    write_endless("always-endless", always)
    write_deaf()
    write_glutton()


def main():
    write_that_misbehave()
    for suffix, datatype in DATATYPES.items():
        write(f"identity-{suffix}", [helper.make_node("Identity", ["x"], ["y"])],
              [("x", datatype, ["batch", "n"])], [("y", datatype, ["batch", "n"])])
    pair = [helper.make_node("Add", ["a", "b"], ["sum"]),
            helper.make_node("Sub", ["a", "b"], ["difference"])]
    row = (TensorProto.INT32, ["batch", 4])
    write("pair", pair, [("a", *row), ("b", *row)], [("sum", *row), ("difference", *row)])
    fixed = (TensorProto.FLOAT, [3, 5])
    table = numpy.arange(10, dtype=numpy.float32) * 10
    write("gather", [helper.make_node("Gather", ["table", "index"], ["value"], axis=0)],
          [("index", TensorProto.INT64, ["batch", 1])],
          [("value", TensorProto.FLOAT, ["batch", 1])], [("table", table)])
    weights = numpy.random.default_rng(7).normal(size=(16, 8)).astype(numpy.float32)
    write("dense", [helper.make_node("MatMul", ["x", "w"], ["z"]),
                    helper.make_node("Relu", ["z"], ["y"])],
          [("x", TensorProto.FLOAT, ["n", 16])], [("y", TensorProto.FLOAT, ["n", 8])],
          [("w", weights)])
    write_ensemble()
    write_dynamic()
    hostile = REPOSITORY.parent / "hostile"
    hostile.mkdir(exist_ok=True)
    good = (REPOSITORY / "pair" / "1" / "model.onnx").read_bytes()
    (hostile / "truncated.onnx").write_bytes(good[: len(good) // 2])
    (hostile / "garbage.onnx").write_bytes(bytes(range(256)) * 4)
    (hostile / "empty.onnx").write_bytes(b"")
    write("whole", [helper.make_node("Neg", ["x"], ["y"])], [("x", *fixed)], [("y", *fixed)])


if __name__ == "__main__":
    main()
