"""What the programs of this folder have alike: they try one client of other people's each, on the server that
their arguments name, and print what passed and what did not as JSON."""

import contextlib
import json
import sys
import traceback

import numpy

HTTP, GRPC, METRICS = sys.argv[1:4]
# Of the identity models of tests/data, with values that each can carry.
VALUES = {
    "BOOL": numpy.array([[True, False]]), "UINT8": numpy.array([[0, 255]], numpy.uint8),
    "UINT16": numpy.array([[0, 65535]], numpy.uint16),
    "UINT32": numpy.array([[0, 2**32 - 1]], numpy.uint32),
    "UINT64": numpy.array([[0, 2**64 - 1]], numpy.uint64),
    "INT8": numpy.array([[-128, 127]], numpy.int8),
    "INT16": numpy.array([[-32768, 32767]], numpy.int16),
    "INT32": numpy.array([[-(2**31), 2**31 - 1]], numpy.int32),
    "INT64": numpy.array([[-(2**63), 2**63 - 1]], numpy.int64),
    "FP16": numpy.array([[0.5, -1.5]], numpy.float16), "FP32": numpy.array([[0.1, -1e30]], numpy.float32),
    "FP64": numpy.array([[0.1, -1e300]], numpy.float64),
    "BYTES": numpy.array([[b"", "käse".encode()]], object),
}


def identity(datatype):
    return f"identity-{datatype.lower()}"


class Checks:
    def __init__(self, client, version):
        self.client, self.version, self.rows = client, version, []

    @contextlib.contextmanager
    def check(self, name):
        """What is done within it passes unless it raises."""
        try:
            yield
            self.rows.append({"check": name, "passed": True})
        except Exception as error:  # of whatever kind other people's clients raise
            where = traceback.extract_tb(error.__traceback__)[-1]
            self.rows.append({"check": name, "passed": False,
                              "why": f"{type(error).__name__}: {error} ({where.name})"[:300]})

    def refuses(self, name, what, words=""):
        """`what` raises something that says these words."""
        with self.check(name):
            try:
                what()
            except Exception as error:
                assert words in str(error), error
                return
            raise AssertionError("was not refused")

    def print(self):
        print(json.dumps({"client": self.client, "version": self.version, "checks": self.rows}))


def same(left, right):
    assert left is not None and left.shape == right.shape and (left == right).all(), left
