#!/usr/bin/env python3
"""What models in processes of their own cost, and what a death of one costs others.

    make bench && scripts/deps.sh test && .deps/test/bin/python bench/apart.py [--rounds 9] [--short]

The same models run on threads of the server and in processes (`workers.isolation`), in rounds that take turns:
the median of a request alone, and requests per second. Then a model is killed 200 times, by signals, while it and
another are asked at half of what the workers can do, and between those a third gets requests that never end or that
want more memory than there is: how every request ended, and which were lost that had time left for the restart. Last,
how long after a kill in the middle of a run its request is bound again, and how long a model is away. `--short` is for
CI: few rounds, and no record. Else it writes bench/results/apart.json (apart_costs.json, apart_deaths.json). A quiet machine measures itself; on one with
other work put `chrt -r 1` before the command."""

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

COSTS, DEATHS = server.ROOT / "build" / "bench_apart", server.ROOT / "build" / "bench_apart_deaths"


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


def greedy(repository, name):
    """Wants as many numbers as its input says."""
    nodes = [helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
             helper.make_node("Cast", ["most"], ["count"], to=TensorProto.INT64),
             helper.make_node("Reshape", ["count", "one"], ["shape"]),
             helper.make_node("ConstantOfShape", ["shape"], ["all"]),
             helper.make_node("ReduceSum", ["all"], ["sum"], keepdims=0),
             helper.make_node("Add", ["x", "sum"], ["y"])]
    write(repository, name, nodes, 1, 1, {"one": numpy.array([1])})


def repository_in(folder):
    repository = pathlib.Path(folder)
    mean(repository, "kb1", 256)
    mean(repository, "kb150", 37500)
    layers(repository, "us100", 256, 8)
    layers(repository, "ms1", 512, 16)
    return repository


def measure(program, repository, *arguments):
    done = subprocess.run([program, repository, server.BINARY, *map(str, arguments)], stdout=subprocess.PIPE,
                          text=True, check=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--deaths", type=int, default=200)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", choices=["costs", "deaths"])
    arguments = parser.parse_args()
    result = {}
    with tempfile.TemporaryDirectory() as name:
        repository = repository_in(name)
        if arguments.only != "deaths":
            result |= measure(COSTS, repository, 2 if arguments.short else arguments.rounds)
        layers(repository, "victim", 256, 8)
        layers(repository, "canary", 256, 8)
        layers(repository, "mb100", 5120, 1)
        endless(repository, "endless300", 300)
        endless(repository, "endless1", 1)
        greedy(repository, "greedy")
        if arguments.only != "costs":
            result |= measure(DEATHS, repository, *([12, "short"] if arguments.short else [arguments.deaths]))
    print(json.dumps(result, indent=1))
    wrong = faults(result["under_load"]) if "under_load" in result else []
    print("\n".join(wrong))
    if not arguments.short:
        record.write("_".join(filter(None, ["apart", arguments.only])), result)
    return 1 if wrong else 0


def faults(load):
    """Of what deaths may cost others: nothing but requests that never end or want all memory, and those of the
    model that dies that had no time left for its restart."""
    ends, before, lost = load["with"], load["without"], load["with"]["lost"]
    streams = ("victim", "canary", "endless", "greedy")
    wrong = [f"{model}: {ends[model]['twice']} requests ended twice" for model in streams if ends[model]["twice"]]
    wrong += [f"{model}: {ends[model][end]} {end}" for model in ("victim", "canary")
              for end in ("failed", "rejected_queue", "unavailable") if ends[model].get(end)]
    if lost["with_time"] or lost["no_death"]:
        wrong.append(f"the model that dies: {lost['with_time']} requests lost that had time left for the restart, a "
                     f"run and 20 ms, and {lost['no_death']} with no death in their time: {lost['says']}")
    if ends["canary"]["on_time_share"] < before["canary"]["on_time_share"] - 0.01:
        wrong.append(f"the model beside it: {ends['canary']['on_time_share']:.4f} on time, "
                     f"{before['canary']['on_time_share']:.4f} without deaths")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
