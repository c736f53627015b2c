#!/usr/bin/env python3
"""What models in processes of their own cost, and what a death of one costs others.

    make bench && scripts/deps.sh test && .deps/test/bin/python bench/apart.py [--rounds 9] [--short]

The same models run on threads of the server and in processes (`workers.isolation`), in rounds that take turns:
the median of a request alone, and requests per second. Then a model is killed 200 times, by signals and by requests
that never end, while it and another are asked at half of what the workers can do: how every request ended. Last, how
long after a kill in the middle of a run its request is bound again, and how long a model is away. `--short` is for CI:
few rounds, and no record. Else it writes bench/results/apart.json."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
import record
import server
from onnx import TensorProto, helper, numpy_helper

BENCH = server.ROOT / "build" / "bench_apart"


def write(repository, name, nodes, width, outputs, constants):
    folder = repository / name / "1"
    folder.mkdir(parents=True)
    graph = helper.make_graph(
        nodes, name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", outputs])],
        [numpy_helper.from_array(array, key) for key, array in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    onnx.save(model, folder / "model.onnx")


def mean(repository, name, width):
    write(repository, name, [helper.make_node("ReduceMean", ["x"], ["y"], axes=[1], keepdims=1)], width, 1, {})


def layers(repository, name, width, count):
    """Fully connected, one behind the other."""
    weights = numpy.random.default_rng(7).normal(size=(width, width)).astype(numpy.float32) / width
    nodes = [helper.make_node("MatMul", ["x" if i == 0 else f"h{i}", "w"], ["y" if i + 1 == count else f"h{i + 1}"])
             for i in range(count)]
    write(repository, name, nodes, width, width, {"w": weights})


def endless(repository, name, megabytes):
    """Runs for ever where its input is above zero, and holds so much that it has written to."""
    def above_zero(of, to):
        return [helper.make_node("ReduceMax", [of], [to + "_most"], keepdims=0),
                helper.make_node("Sign", [to + "_most"], [to + "_sign"]),
                helper.make_node("Cast", [to + "_sign"], [to], to=TensorProto.BOOL)]
    one, truth = (TensorProto.FLOAT, ["n", 1]), (TensorProto.BOOL, [])
    body = helper.make_graph(
        [helper.make_node("Identity", ["held"], ["held_again"]), *above_zero("held", "again")], "body",
        [helper.make_tensor_value_info(*v) for v in [("turn", TensorProto.INT64, []), ("going", *truth), ("held", *one)]],
        [helper.make_tensor_value_info(*v) for v in [("again", *truth), ("held_again", *one)]])
    table = numpy.ones((megabytes << 18, 1), numpy.float32)
    nodes = [*above_zero("x", "first"), helper.make_node("Loop", ["", "first", "x"], ["looped"], body=body),
             helper.make_node("Gather", ["table", "zero"], ["row"], axis=0),
             helper.make_node("Add", ["looped", "row"], ["y"])]
    write(repository, name, nodes, 1, 1, {"table": table, "zero": numpy.array([0])})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--short", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        repository = pathlib.Path(name)
        mean(repository, "kb1", 256)
        mean(repository, "kb150", 37500)
        layers(repository, "us100", 256, 8)
        layers(repository, "ms1", 512, 16)
        layers(repository, "victim", 256, 8)
        layers(repository, "canary", 256, 8)
        layers(repository, "mb100", 5120, 1)
        endless(repository, "endless300", 300)
        endless(repository, "endless1", 1)
        done = subprocess.run([BENCH, repository, server.BINARY, str(2 if arguments.short else arguments.rounds)],
                              stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(done.stdout)
    print(json.dumps(result, indent=1))
    wrong = faults(result["under_load"])
    print("\n".join(wrong))
    if not arguments.short:
        record.write("apart", result)
    return 1 if wrong else 0


def faults(load):
    """Of what deaths may cost others: nothing but the requests that never end."""
    ends, before = load["with"], load["without"]
    wrong = [f"{model}: {row['twice']} requests ended twice" for model, row in ends.items() if row["twice"]]
    wrong += [f"{model}: {row[end]} {end}" for model, row in ends.items() for end in ("failed", "rejected_queue")
              if row.get(end) and model != "endless"]
    if ends["canary"]["on_time_share"] < before["canary"]["on_time_share"] - 0.01:
        wrong.append(f"the model beside it: {ends['canary']['on_time_share']:.4f} on time, "
                     f"{before['canary']['on_time_share']:.4f} without deaths")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
