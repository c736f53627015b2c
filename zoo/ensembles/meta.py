"""A stacking ensemble's meta-classifier: gradient boosted trees, fitted by XGBoost, as ONNX."""

import json

import numpy as np
import xgboost
from onnx import TensorProto, checker, helper

from training.cards import session

ROUNDS, DEPTH = 40, 3


def fit(outputs, labels, classes, seed):
    """On the base models' outputs side by side, [n, all their values]."""
    settings = {"objective": "multi:softprob", "num_class": classes, "max_depth": DEPTH,
                "eta": 0.15, "subsample": 0.8, "colsample_bytree": 0.5, "nthread": 1, "seed": seed,
                "base_score": 0.5, "tree_method": "hist"}
    return xgboost.train(settings, xgboost.DMatrix(outputs, labels), ROUNDS)


def model(name, booster, values, classes):
    """From `features`, FP32 [batch, values], to `probabilities` and `label` as a base model's."""
    trees = _attributes(booster, classes)
    one = helper.make_tensor("axes", TensorProto.INT64, [1], [1])
    nodes = [helper.make_node("TreeEnsembleClassifier", ["features"], ["classes", "probabilities"],
                              domain="ai.onnx.ml", **trees),
             helper.make_node("Unsqueeze", ["classes", "axes"], ["label"])]
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, name, [tensor("features", TensorProto.FLOAT, ["batch", values])],
        [tensor("probabilities", TensorProto.FLOAT, ["batch", classes]),
         tensor("label", TensorProto.INT64, ["batch", 1])], [one])
    sets = [helper.make_opsetid("", 13), helper.make_opsetid("ai.onnx.ml", 1)]
    written = helper.make_model(graph, opset_imports=sets, ir_version=7, producer_name="fermata")
    checker.check_model(written)
    return written


def check(model, booster, outputs):
    """That ONNX Runtime says of the model what XGBoost says of the trees."""
    found = session(model.SerializeToString()).run(["probabilities"], {"features": outputs})[0]
    off = np.abs(found - booster.predict(xgboost.DMatrix(outputs))).max()
    if not off < 1e-5:
        raise SystemExit(f"error: the exported trees are off by {off:g}, expected at most 1e-5")


def _attributes(booster, classes):
    """TreeEnsembleClassifier's columns: a row a node, and a row a leaf's weight."""
    nodes = {name: [] for name in ("treeids", "nodeids", "modes", "featureids", "values",
                                   "truenodeids", "falsenodeids", "missing_value_tracks_true")}
    leaves = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}

    def add(columns, *row):
        for column, value in zip(columns.values(), row):
            column.append(value)

    def walk(tree, node):
        if "leaf" in node:
            add(nodes, tree, node["nodeid"], "LEAF", 0, 0.0, 0, 0, 0)
            add(leaves, tree, node["nodeid"], tree % classes, node["leaf"])
            return
        add(nodes, tree, node["nodeid"], "BRANCH_LT", int(node["split"][1:]),
            float(np.float32(node["split_condition"])), node["yes"], node["no"],
            int(node["missing"] == node["yes"]))
        for child in node["children"]:
            walk(tree, child)

    for tree, text in enumerate(booster.get_dump(dump_format="json")):
        walk(tree, json.loads(text))
    return {**{f"nodes_{name}": column for name, column in nodes.items()},
            **{f"class_{name}": column for name, column in leaves.items()},
            "classlabels_int64s": list(range(classes)), "post_transform": "SOFTMAX"}
