"""What docs/protocol.md says of Triton names requests that bench/triton.py sends."""

import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import triton_protocol  # noqa: E402  (after the path)


def test_every_difference_on_purpose_is_a_case():
    cases = {f"HTTP, {name}" for name, *_ in triton_protocol.http_cases("m")}
    cases |= {f"gRPC, {name}" for name, _ in triton_protocol.grpc_cases("m")}
    named = triton_protocol.on_purpose()
    assert named and named <= cases


def test_shapes_forget_values_and_keep_structure():
    assert triton_protocol.shape_of({"b": [1, 2.5], "a": [{"x": True}], "c": None, "d": []}) == {
        "a": [{"x": "bool"}], "b": ["number"], "c": "NoneType", "d": []}
