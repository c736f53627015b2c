"""A stream service of emulated models, so quick that nothing depends on how fast the machine is."""

import json

MODEL = """
max_batch_size: 8
input {{ name: "frame" data_type: TYPE_FP32 dims: [ 3, {side}, {side} ] }}
output {{ name: "boxes" data_type: TYPE_FP32 dims: 4 }}
"""
SIDES = {32: (1, 0.2), 48: (2, 0.3), 64: (4, 0.4)}
CONFIG = """
models: {models}
listen: {{http: 0, grpc: 0, metrics: 0}}
workers: {{count: 2, executor: emulated}}
services:
  cameras:
    kind: stream
    slo_ms: 20000
    variants:
      - {{service: side-32, input_size: 32, accuracy: 0.2}}
      - {{service: side-48, input_size: 48, accuracy: 0.3}}
      - {{service: side-64, input_size: 64, accuracy: 0.4}}
"""


def write_models(folder):
    """The repository, in `folder`."""
    for side, (ms, _) in SIDES.items():
        at = folder / f"side-{side}"
        (at / "1").mkdir(parents=True)
        (at / "config.pbtxt").write_text(MODEL.format(side=side))
        times = {"runs": 1, "p50_ms": ms, "p90_ms": ms, "p99_ms": ms, "mean_ms": ms}
        (at / "profile.json").write_text(json.dumps(
            {"format": 1, "version": 1, "model": f"side-{side}", "model_version": "1",
             "batches": {"1": times, "8": times},
             "linear_ms": {"alpha": 0, "beta": ms, "error": 0},
             "quadratic_ms": {"a": 0, "b": 0, "c": ms, "error": 0}}))
    return folder
