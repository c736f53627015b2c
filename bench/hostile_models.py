"""Models that do to their process, and to what it shares with the server, what a hostile author would."""

import pathlib

CODE = '''
import ctypes
import json
import mmap
import os
import re
import signal
import struct
import threading

import numpy as np
import triton_python_backend_utils as pb_utils

HOW = "{how}"


def forged():
    """Others than what stands there, for as long as the process lives."""
    shared = mmap.mmap(3, 0)
    while True:
        shared[4096 + 65536:4096 + 131072] = os.urandom(65536)


def calls(large):
    """Of the canary without end, whose answers it does not read."""
    items = 4 << 20 if large else 1
    inputs = [{"name": "x", "datatype": "FP32", "shape": [items, 4], "bytes": 16 * items}]
    for number in range(1, 1 << 60):
        text = json.dumps({"id": number, "model": "canary", "version": "", "request_id": "", "parameters": {}, "outputs": [],
                           "deadline": None, "inputs": inputs}).encode()
        message = struct.pack("<QQ", len(text), 16 * items) + text + bytes(16 * items)
        while message:
            message = message[os.write(5, message):]


def hostile():
    if HOW.startswith("SIG"):
        os.kill(os.getpid(), getattr(signal, HOW))
        threading.Event().wait()
    elif HOW == "null":
        ctypes.string_at(0)
    elif HOW == "endless":
        while True:
            pass
    elif HOW == "endless_in_c":
        re.match("(a+)+$", "a" * 64 + "b")
    elif HOW == "memory":
        held = []
        while True:
            held.append(b"x" * (64 << 20))
    elif HOW == "shared_memory":
        shared = mmap.mmap(3, 0)
        for at in range(8192, len(shared), 4096):
            shared[at] = 1
    elif HOW == "forged":
        threading.Thread(target=forged, daemon=True).start()
    elif HOW == "fork":
        while True:
            if os.fork() == 0:
                threading.Event().wait()
    elif HOW == "dev_shm":
        with open("/dev/shm/fermata-hostile", "wb") as file:
            while True:
                file.write(bytes(1 << 20))
    elif HOW == "threads":
        while True:
            threading.Thread(target=threading.Event().wait, daemon=True).start()
    elif HOW == "others":
        os.kill(os.getppid(), signal.SIGKILL)
    elif HOW == "exit":
        os._exit(3)
    elif HOW == "calls":
        calls(False)
    elif HOW == "large_calls":
        calls(True)
    elif HOW == "call_noise":
        os.write(5, os.urandom(1 << 20))


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            if x.any():
                hostile()
            shape = (7, 7) if HOW == "sizes" and x.any() else x.shape
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", np.zeros(shape, np.float32))]))
        return responses
'''
CONFIG = '''
backend: "python"
max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }
'''
# What its author does, in words.
ATTACKS = {
    "SIGKILL": "a signal", "SIGSEGV": "a signal", "SIGFPE": "a signal", "SIGABRT": "a signal", "SIGBUS": "a signal",
    "null": "reads where nothing is", "exit": "ends by itself", "endless": "never ends",
    "endless_in_c": "never ends and cannot be interrupted", "memory": "takes all memory",
    "shared_memory": "fills all that it shares", "forged": "writes noise over its answers", "sizes": "answers in another shape",
    "fork": "starts processes", "threads": "starts threads", "dev_shm": "fills /dev/shm", "others": "kills the server",
    "calls": "calls without end", "large_calls": "the same, of 64 MiB", "call_noise": "writes noise as calls"}


def write(repository, attacks):
    for how in attacks:
        version = pathlib.Path(repository) / how.lower() / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(CODE.replace("{how}", how))
        (version.parent / "config.pbtxt").write_text(CONFIG)
