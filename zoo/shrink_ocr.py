#!/usr/bin/env python3
"""Makes faster variants of the packaged text models: the same network on a smaller picture.

Each wraps its model: the input is made smaller inside of the graph and, for detection, the answer as large again, so
that both have the same inputs and outputs and any of them may answer. Detection works on half the height and
width, in multiples of 32; recognition on half the width, so that its text is read in half as many steps.

    zoo/shrink_ocr.py [REPOSITORY]
"""

import pathlib
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

ZOO = pathlib.Path(__file__).resolve().parent
SIDE = 32  # heights and widths that detection takes are multiples of it


def constant(graph, name, values, kind):
    graph.initializer.append(numpy_helper.from_array(numpy.array(values, kind), name))
    return name


def resized(graph, source, target, scales, multiple):
    """Nodes that make `target` of `source`: height and width times `scales`, in multiples of `multiple`."""
    own = lambda part: f"{target}_{part}"
    sizes = [
        helper.make_node("Shape", [source], [own("shape")]),
        helper.make_node("Cast", [own("shape")], [own("float")], to=TensorProto.FLOAT),
        helper.make_node("Mul", [own("float"), constant(graph, own("by"), [1, 1 / multiple[0], scales[0] / multiple[1],
                                                                       scales[1] / multiple[2]], numpy.float32)],
                         [own("scaled")]),
        helper.make_node("Ceil", [own("scaled")], [own("whole")]),
        helper.make_node("Mul", [own("whole"), constant(graph, own("up"), [1, *multiple], numpy.float32)],
                         [own("product")]),
        helper.make_node("Cast", [own("product")], [own("sizes")], to=TensorProto.INT64)]
    nothing = constant(graph, own("nothing"), [], numpy.float32)
    return sizes + [helper.make_node("Resize", [source, nothing, nothing, own("sizes")], [target], mode="linear",
                                     coordinate_transformation_mode="half_pixel")]


def shrink(model, scales, multiple, restore):
    graph = model.graph
    given, answer = graph.input[0].name, graph.output[0].name
    for node in graph.node:
        node.input[:] = ["small_input" if name == given else name for name in node.input]
        node.output[:] = ["small_output" if restore and name == answer else name for name in node.output]
    before = resized(graph, given, "small_input", scales, multiple)
    after = []
    if restore:  # as high and wide as the input, one channel
        shape = [helper.make_node("Shape", [given], ["given_shape"]),
                 helper.make_node("Mul", ["given_shape", constant(graph, "one_channel", [1, 0, 1, 1], numpy.int64)],
                                  ["given_sides"]),
                 helper.make_node("Add", ["given_sides", constant(graph, "channel", [0, 1, 0, 0], numpy.int64)],
                                  ["answer_sizes"])]
        nothing = constant(graph, "answer_nothing", [], numpy.float32)
        after = shape + [helper.make_node("Resize", ["small_output", nothing, nothing, "answer_sizes"], [answer],
                                          mode="linear", coordinate_transformation_mode="half_pixel")]
    nodes = before + list(graph.node) + after
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def main():
    repository = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ZOO / "repository"
    for name, scales, multiple, restore in (("detection", (0.5, 0.5), (3, SIDE, SIDE), True),
                                            ("recognition", (1, 0.5), (3, 48, 8), False)):
        model = onnx.load(repository / f"ocr-{name}" / "1" / "model.onnx")
        if model.opset_import[0].version < 11:
            model = onnx.version_converter.convert_version(model, 13)
        small = shrink(model, scales, multiple, restore)
        onnx.checker.check_model(small)
        folder = repository / f"ocr-{name}-small" / "1"
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(small, folder / "model.onnx")
        config = (ZOO / "repository" / f"ocr-{name}" / "config.pbtxt").read_text()
        (folder.parent / "config.pbtxt").write_text(config.replace(f'"ocr-{name}"', f'"ocr-{name}-small"'))


if __name__ == "__main__":
    main()
