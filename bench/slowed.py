"""Models that answer as the zoo's do but run several times over, so that few requests a second fill
a worker, and neither the client nor the protocols are what is waited for."""

import pathlib
import shutil

import onnx

import server

ZOO = server.ROOT / "zoo" / "repository"


def slowed(model, times):
    """The model `times` over, each run after the last, with the answer of the last."""
    graph, first = model.graph, list(model.graph.node)
    source = graph.input[0].name
    shared = {i.name for i in graph.initializer}
    zero = onnx.helper.make_tensor("slowed_zero", onnx.TensorProto.FLOAT, [1], [0.0])
    graph.initializer.append(zero)
    answer = next(o.name for o in graph.output
                  if o.type.tensor_type.elem_type == onnx.TensorProto.FLOAT)
    del graph.node[:]
    for turn in range(times):
        last, mark = turn + 1 == times, f"slowed_{turn}_"
        took = source if turn == 0 else f"slowed_{turn}_features"
        if turn > 0:  # so that it waits for the turn before, and is not the same computation
            before = f"slowed_{turn - 1}_{answer}"
            graph.node.extend([
                onnx.helper.make_node("ReduceMax", [before], [f"{mark}most"], axes=[1], keepdims=1),
                onnx.helper.make_node("Mul", [f"{mark}most", "slowed_zero"], [f"{mark}nothing"]),
                onnx.helper.make_node("Add", [source, f"{mark}nothing"], [took])])
        for node in first:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.name = ""
            kept = [i if last or i in shared or not i else mark + i for i in node.input]
            copy.input[:] = [took if i == source else k for i, k in zip(node.input, kept)]
            copy.output[:] = [o if last else mark + o for o in node.output]
            graph.node.append(copy)
    return model


def add(repository, name, times):
    """Adds one of the zoo's models, slowed; returns its folder."""
    here, zoo = pathlib.Path(repository) / name, ZOO / name
    (here / "1").mkdir(parents=True)
    for file in ("config.pbtxt", "labels.txt"):
        if (zoo / file).exists():
            shutil.copy(zoo / file, here / file)
    onnx.save(slowed(onnx.load(zoo / "1" / "model.onnx"), times), here / "1" / "model.onnx")
    return here
