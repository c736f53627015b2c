"""Writes models of OpenVINO's for the tests, with its own Python: openvino_models.py KIND TARGET [ONNX]."""

import pathlib
import re
import sys

import numpy as np
import openvino as ov
from openvino import opset13 as op


def scaled():
    """y = 2 x + 1 of rows of four."""
    x = op.parameter([-1, 4], np.float32, name="x")
    y = op.result(op.add(op.multiply(x, np.float32(2)), np.float32(1)))
    model = ov.Model([y], [x], "scaled")
    model.inputs[0].tensor.set_names({"x"})
    model.outputs[0].tensor.set_names({"y"})
    return model


def counted():
    """As often as it says, one is added."""
    times = op.parameter([1], np.int64, name="times")
    body_x = op.parameter([1], np.float32)
    body = ov.Model([op.constant(np.array([True])), op.add(body_x, np.float32(1))], [body_x], "body")
    loop = op.loop(op.squeeze(times, np.int64(0)), op.constant(np.array([True])))
    loop.set_function(body)
    loop.set_special_body_ports([-1, 0])
    loop.set_merged_input(body_x, op.constant(np.zeros(1, np.float32)).output(0), body.results[1].output(0))
    model = ov.Model([op.result(loop.get_iter_value(body.results[1].output(0), -1))], [times], "counted")
    model.inputs[0].tensor.set_names({"times"})
    model.outputs[0].tensor.set_names({"sum"})
    return model


def main(kind, target, onnx=None):
    folder = pathlib.Path(target)
    folder.mkdir(parents=True)
    model = {"onnx": lambda: ov.convert_model(onnx), "scaled": scaled, "nameless": scaled,
             "counted": counted}[kind]()
    file = folder / "model.xml"
    ov.save_model(model, file, compress_to_fp16=False)
    if kind == "nameless":
        file.write_text(re.sub(' (output_)?names="[^"]*"', "", file.read_text()))


if __name__ == "__main__":
    main(*sys.argv[1:])
