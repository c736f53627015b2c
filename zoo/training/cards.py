"""What a variant scores, and the files beside its model that say so."""

import json

import numpy as np
import onnxruntime
from sklearn.metrics import confusion_matrix
from sklearn.neighbors import KNeighborsClassifier

NEIGHBOURS = 5


def session(model):
    """ONNX Runtime with one thread, for the file or its bytes."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def answers(model, inputs):
    """The classes that the file, or its bytes, says."""
    return session(model).run(["label"], inputs)[0][:, 0]


def neighbours_answers(features, labels, asked):
    """The class of most of the nearest five: what the evidence alone would answer."""
    return KNeighborsClassifier(NEIGHBOURS).fit(features, labels).predict(asked)


def scores(found, labels, classes):
    """Accuracy, recall by class and confusion matrix, rows by true class."""
    confusion = confusion_matrix(labels, found, labels=range(classes))
    return {
        "accuracy": round(float((found == labels).mean()), 6),
        "recall": [round(float(row[i] / row.sum()), 6) for i, row in enumerate(confusion)],
        "confusion": confusion.tolist(),
    }


def errors(found, values, tolerance):
    """What a regression model is off, and how often by no more than the tolerance."""
    off = np.abs(found - values)
    return {"mean_absolute_error": round(float(off.mean()), 6), "tolerance": tolerance,
            "accuracy": round(float((off <= tolerance).mean()), 6)}


def write_card(path, values):
    """JSON with each row of the confusion matrix, if there is one, on a line."""
    lines = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in values.items() if k != "confusion"]
    if "confusion" in values:
        rows = ",\n".join("    " + json.dumps(row) for row in values["confusion"])
        lines.append('  "confusion": [\n' + rows + "\n  ]")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def write_configuration(folder, about, max_batch, values, classes, source="features"):
    """Triton's config.pbtxt and the file of labels that it names."""
    (folder / "labels.txt").write_text("".join(f"{label}\n" for label in classes))
    _write_configuration(folder, about, max_batch, values, f"""output {{
  name: "probabilities" data_type: TYPE_FP32 dims: [ {len(classes)} ]
  label_filename: "labels.txt"
}}
output {{ name: "label" data_type: TYPE_INT64 dims: [ 1 ] }}
""", source)


def write_plain_configuration(folder, about, max_batch, values, outputs):
    """Triton's config.pbtxt; outputs are FP32, so many numbers each by name."""
    _write_configuration(folder, about, max_batch, values, "".join(
        f'output {{ name: "{name}" data_type: TYPE_FP32 dims: [ {width} ] }}\n'
        for name, width in outputs.items()))


def _write_configuration(folder, about, max_batch, values, outputs, source="features"):
    (folder / "config.pbtxt").write_text(f"""# {about}
name: "{folder.name}"
platform: "onnxruntime_onnx"
max_batch_size: {max_batch}
input {{ name: "{source}" data_type: TYPE_FP32 dims: [ {values} ] }}
{outputs}dynamic_batching {{ }}
""")
