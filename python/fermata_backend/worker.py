"""The process: its main thread answers the server, another loads and runs the model."""

import collections
import ctypes
import gc
import json
import os
import socket
import sys
import threading
import time

import area
import fermata_calls
import model
import triton_python_backend_utils as pb_utils


class Prints:
    """What a model prints, as lines of the server's log."""

    def __init__(self, level):
        self._level, self._line = level, ""

    def write(self, text):
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            pb_utils.Logger.write(line, self._level)
        return len(text)

    def flush(self):
        pass

    def isatty(self):
        return False

    def fileno(self):
        return 2


class Runner(threading.Thread):
    """Everything of the model happens on this thread: some libraries want that."""

    def __init__(self, memory):
        super().__init__(daemon=True)
        self._memory, self._models, self._tasks = memory, {}, collections.deque()
        self._lock, self._running, self._stop = threading.Lock(), False, False
        self._begun = self._done = 0

    def do(self, task):
        """What it returns, or the exception."""
        done, box = threading.Event(), []
        self._tasks.append((task, done, box))
        self._memory.wake()
        while not done.wait(0.01):  # it may have been about to wait
            if self._tasks:
                self._memory.wake()
        return box[0]

    def load(self, message):
        self._models[message["variant"]] = model.Model(message)
        gc.collect()
        gc.freeze()  # what stays is not looked at again while requests wait

    def unload(self, variant):
        if gone := self._models.pop(variant, None):
            gone.finalize()

    def finalize(self):
        for variant in list(self._models):
            self.unload(variant)

    def stop(self):
        with self._lock:
            if not self._running:
                return
            self._stop = True
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident),
                                                       ctypes.py_object(model.Stopped))

    def run(self):
        while True:
            try:
                self._turn()
            except SystemExit as left:
                leave(left)
            except BaseException:  # a Stopped that came late: the next turn answers
                pass

    def _turn(self):
        while self._tasks:
            self._do_task(*self._tasks.popleft())
        asked = self._memory.asked()
        if asked == self._done:
            return self._memory.wait(asked)
        if asked != self._begun:
            self._begun = asked
            self._run_batch(asked)
        else:
            self._end()
            self._memory.fail(asked, "the run was stopped", code=4)
        self._done = asked
        self._memory.answer(asked)

    def _do_task(self, task, done, box):
        try:
            box.append(task())
        except SystemExit as left:
            leave(left)
        except BaseException as error:
            box.append(error)
        done.set()

    def _run_batch(self, number):
        memory, start = self._memory, time.monotonic_ns()
        variant = memory.variant()
        loaded = self._models.get(variant)
        if loaded is None:
            return memory.fail(number, f"variant {variant} is not loaded")
        try:
            batch = memory.read(loaded.inputs, loaded.batches)
            results = self._results(loaded, batch)
            memory.reply(batch, loaded.outputs, loaded.batches, results, time.monotonic_ns() - start)
        except (SystemExit, model.Stopped):
            raise
        except BaseException as error:
            memory.fail(number, model.said(error, loaded.file), time.monotonic_ns() - start, 13)

    def _results(self, loaded, batch):
        with self._lock:
            self._running, self._stop = True, False
        try:
            return loaded.run(batch, lambda: self._stop)
        except model.Stopped:
            return [(4, "the run was stopped")] * len(batch.parts)
        finally:
            self._end()

    def _end(self):
        """After it no Stopped comes, not even one that is on its way."""
        with self._lock:
            self._running = False
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), None)


def leave(left):
    code = left.code if isinstance(left.code, int) else 1
    try:
        pb_utils.Logger.write(f"sys.exit({left.code!r}) ends its process", "error")
    finally:
        os._exit(code & 0xFF)


class Server:
    """The control stream: one JSON object a line."""

    def __init__(self, control_fd):
        self._stream = socket.socket(fileno=control_fd).makefile("rw", encoding="utf-8")

    def say(self, **answer):
        self._stream.write(json.dumps(answer) + "\n")
        self._stream.flush()

    def serve(self, runner):
        for line in self._stream:
            message = json.loads(line)
            operation = message["op"]
            if operation == "stop":
                runner.stop()
            elif operation == "pin":
                pin(runner, message["processors"])
            elif operation in ("complete", "load", "unload"):
                self._answer(runner, operation, message)
            else:
                self.say(ok=False, code=12, error=f"there is no '{operation}'")
        runner.do(runner.finalize)

    def _answer(self, runner, operation, message):
        if "file" in message:
            pb_utils.Logger.folder = os.path.dirname(message["file"])
        task = {"complete": lambda: model.complete(message), "load": lambda: runner.load(message),
                "unload": lambda: runner.unload(message["variant"])}[operation]
        result = runner.do(task)
        if isinstance(result, BaseException):
            self.say(ok=False, code=3, error=model.said(result, message.get("file", "")))
        elif result is not None:
            self.say(ok=True, config=result)
        else:
            self.say(ok=True)


def pin(runner, processors):
    try:
        os.sched_setaffinity(runner.native_id, processors)
    except OSError:  # a wish
        pass


def main(name):
    memory = area.Area(3)
    memory.show_life()
    pb_utils.InferenceRequest.calls = fermata_calls.Calls(5)
    pb_utils.Logger.model, pb_utils.Logger.stream = name, sys.stderr
    sys.stdout, sys.stderr = Prints("info"), Prints("warning")
    server, runner = Server(4), Runner(memory)
    runner.start()
    server.say(ok=True)
    server.serve(runner)
    os._exit(0)
