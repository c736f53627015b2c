#!/usr/bin/env python3
"""What a stage costs: a chain of three tiny models, and an ensemble of them, beside one of them alone.

Closed loop over gRPC (h2load, 64 under way), in turns: one model, a pipeline of the three, an ensemble that averages all three, and, where there is a real Triton (scripts/deps.sh bench,
build/bench_triton_backend.so), its ensemble of the same models, which is a chain. Requests a second as ratios within a round, and the processor time of one in the server.

    .deps/bench/bin/python bench/chain.py [--rounds 5] [--requests 20000]
"""

import argparse
import contextlib
import itertools
import json
import pathlib
import statistics
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

import front_end
import plot
import record
import triton_server
from server import Server

MODELS = ("one", "two", "three")
SIZE = 16
MUST_CHAIN, MUST_ENSEMBLE, MUST_TRITON = 0.8, 0.6, 3.0


def write_model(folder, name):
    """One matrix product, the identity, so that a chain of them has an answer that is known."""
    (folder / name / "1").mkdir(parents=True)
    ends = [helper.make_tensor_value_info(t, TensorProto.FLOAT, ["batch", SIZE]) for t in "xy"]
    weights = numpy_helper.from_array(numpy.eye(SIZE, dtype=numpy.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], name, ends[:1], ends[1:], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8),
              folder / name / "1" / "model.onnx")
    (folder / name / "config.pbtxt").write_text("max_batch_size: 64\n")


def triton(folder):
    """Triton's ensemble of the same models; None where there is no Triton."""
    ends = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, SIZE]}],
            "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, SIZE]}]}
    steps = ", ".join(
        f'{{ model_name: "{name}" model_version: -1 input_map {{ key: "x" value: "{before}" }} '
        f'output_map {{ key: "y" value: "{after}" }} }}'
        for name, before, after in zip(MODELS, ("x", "a", "b"), ("a", "b", "y")))
    text = (f'name: "chain"\nplatform: "ensemble"\nmax_batch_size: 64\n'
            f'input {{ name: "x" data_type: TYPE_FP32 dims: [{SIZE}] }}\n'
            f'output {{ name: "y" data_type: TYPE_FP32 dims: [{SIZE}] }}\n'
            f"ensemble_scheduling {{ step [ {steps} ] }}\n")
    try:
        return triton_server.Triton({name: (folder / name / "1", ends, 64, {}) for name in MODELS}, {"chain": text})
    except RuntimeError as error:
        print(f"without Triton: {error}")
        return None


def write_profile(folder):
    """Of an ensemble in which every further answer is worth much, so that all are asked where there is time."""
    folder.mkdir()
    subsets = [s for n in range(1, len(MODELS) + 1) for s in itertools.combinations(MODELS, n)]
    bins = [{"queries": 20, "utility": {"+".join(s): len(s) / len(MODELS) for s in subsets}}] * 2
    measures = {name: {"edges": [0.5], "bins": bins, "norms": [1] * norms}
                for name, norms in (("discrepancy", len(MODELS)), ("agreement", 1))}
    (folder / "profile.json").write_text(json.dumps(
        {"format": 1, "name": "ensemble", "models": MODELS, "task": "regression", "aggregation": "average",
         "width": SIZE, "queries": 40, "tolerance": 0.1, "measures": measures}))


def members_asked(server):
    """By the ensemble, for one item each."""
    return server.metrics().get('fermata_batch_size_sum{service="ensemble",version="1"}', 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=20000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as started:
        repository, profile = pathlib.Path(folder) / "models", pathlib.Path(folder) / "profile"
        write_profile(profile)
        for name in MODELS:
            write_model(repository, name)
        fermata = started.enter_context(Server({
            "models": str(repository), "log_level": "error", "workers": {"count": 1}, "services": {
                "chain": {"kind": "pipeline", "stages": [{"name": f"s{k}", "model": name}
                                                         for k, name in enumerate(MODELS)]},
                "ensemble": {"kind": "ensemble", "models": list(MODELS), "slo_ms": 1000,
                             "profile": str(profile)}}}))
        servers = {"one": (fermata, "one"), "chain": (fermata, "chain"), "ensemble": (fermata, "ensemble")}
        if (theirs := triton(repository)) is not None:
            started.enter_context(theirs)
            servers |= {"Triton's one": (theirs, "one"), "Triton's chain": (theirs, "chain")}
        protocols = {model: front_end.grpc_protocol(model) for _, model in servers.values()}
        rounds = {name: [] for name in servers}
        for k in range(given.rounds + 1):
            before = members_asked(fermata)
            for name, (server, model) in servers.items():
                rate, in_server, _ = front_end.saturate(protocols[model], server.grpc, server.pid, given.requests)
                if k > 0:  # the first warms up
                    rounds[name].append({"rps": rate, "server_us": in_server})
            if members_asked(fermata) - before != len(MODELS) * given.requests:
                raise RuntimeError("not every member of the ensemble was asked every time")
    ratio = {f"{a} over {b}": statistics.median(x["rps"] / y["rps"] for x, y in zip(rounds[a], rounds[b]))
             for a, b in (("chain", "one"), ("ensemble", "one"), ("chain", "Triton's chain"),
                          ("Triton's chain", "Triton's one")) if a in rounds and b in rounds}
    print(plot.table(["", "requests/s", "µs of the server's processors"],
                     [[name, *(statistics.median(r[field] for r in runs) for field in ("rps", "server_us"))]
                      for name, runs in rounds.items()]))
    print(plot.table(["ratio, median of the rounds", ""], list(ratio.items())))
    record.write("chain", {"rounds": rounds, "ratios": ratio, "must": {
        "chain over one": MUST_CHAIN, "ensemble over one": MUST_ENSEMBLE, "chain over Triton's chain": MUST_TRITON}})


if __name__ == "__main__":
    main()
