"""The zoo's models in ONNX Runtime on one thread, timed by the processor's clock, which what
else the machine does disturbs least."""

import functools
import os
import time

import numpy
import onnxruntime

import record
import server

ZOO = server.ROOT / "zoo"
BATCHES = (1, 2, 4, 8, 16)
RUNS, BEST = 60, 0.1  # the quantile of them that a busy machine has not disturbed
LOADS = 20


def file_of(model):
    return ZOO / "repository" / model / "1" / "model.onnx"


def session(file):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def outputs_of(model, features, output):
    ready = session(file_of(model))
    return numpy.concatenate([ready.run([output], {"features": part})[0]
                              for part in numpy.array_split(features, 1 + len(features) // 64)])


def taken_ms(what, runs):
    taken = []
    for i in range(runs):
        start = time.thread_time()
        what(i)
        taken.append(time.thread_time() - start)
    return 1000 * float(numpy.quantile(taken, BEST))


def latencies(model, features, batches=BATCHES):
    """Milliseconds by batch size; never more than of a larger batch."""
    ready, found = session(file_of(model)), {}
    for size in sorted(batches, reverse=True):
        def run(i):
            at = (i * size) % (len(features) - size)
            ready.run(None, {"features": features[at:at + size]})
        found[str(size)] = min([taken_ms(run, RUNS), *found.values()])
    return dict(reversed(found.items()))


def load_ms(model):
    return taken_ms(lambda _: session(file_of(model)), LOADS)


@functools.cache
def machine():
    return f"{os.cpu_count()} x {record.processor()}, ONNX Runtime {onnxruntime.__version__}"
