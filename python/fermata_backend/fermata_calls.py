"""Calls of other models: what InferenceRequest.exec() sends the server, and its answers."""

import concurrent.futures
import contextlib
import json
import socket
import struct
import threading

import area

_LENGTHS = struct.Struct("<QQ")
_CLOSED = {"code": 14, "error": "the server has closed the stream of calls"}, b""


class Calls:
    """The stream of calls (docs/processes.md). Any thread may call."""

    def __init__(self, fd):
        self._stream, self._lock, self._number = socket.socket(fileno=fd), threading.Lock(), 0
        self._waiting, self._reader = {}, None
        self.deadline = None  # of the batch that runs, of CLOCK_MONOTONIC in nanoseconds

    def begin(self, message, tensors):
        """A future of (message, bytes of the tensors that it has)."""
        datas = []
        message["inputs"] = [self._described(tensor, datas) for tensor in tensors]
        future = concurrent.futures.Future()
        with self._lock:
            if self._reader is None:
                self._reader = threading.Thread(target=self._read, daemon=True)
                self._reader.start()
            self._number += 1
            future.number = message["id"] = self._number
            self._waiting[self._number] = future
            try:
                self._send(message, datas)
            except OSError:
                if self._waiting.pop(self._number, None):
                    future.set_result(_CLOSED)
        return future

    def cancel(self, future):
        """Where nobody waits for it any more."""
        if not future.done():
            with self._lock, contextlib.suppress(OSError):
                self._send({"id": future.number, "cancel": True}, [])

    def _send(self, message, datas):
        """In one go: a run that is stopped leaves no half of a message."""
        text = json.dumps(message).encode()
        self._stream.sendall(b"".join([_LENGTHS.pack(len(text), sum(map(len, datas))), text, *datas]))

    @staticmethod
    def _described(tensor, datas):
        datatype, data = area.as_input(tensor.name(), tensor.as_numpy())
        datas.append(data)
        return {"name": tensor.name(), "datatype": datatype, "shape": list(tensor.as_numpy().shape),
                "bytes": len(data)}

    def _read(self):
        try:
            while True:
                text, size = _LENGTHS.unpack(self._received(_LENGTHS.size))
                message, data = json.loads(bytes(self._received(text))), self._received(size)
                with self._lock:
                    future = self._waiting.pop(message["id"])
                future.set_result((message, data))
        except OSError:
            with self._lock:
                waiting, self._waiting = self._waiting, {}
            for future in waiting.values():
                future.set_result(_CLOSED)

    def _received(self, size):
        data = bytearray(size)
        view = memoryview(data)
        while view:
            count = self._stream.recv_into(view)
            if count == 0:
                raise ConnectionError("the stream of calls has ended")
            view = view[count:]
        return data


def tensors_of(message, data):
    """Of each output its name and array."""
    at, outputs = 0, []
    for output in message["outputs"]:
        part = memoryview(data)[at:at + output["bytes"]]
        at += output["bytes"]
        outputs.append((output["name"], area.array_of(output["datatype"], output["shape"], part)))
    return outputs
