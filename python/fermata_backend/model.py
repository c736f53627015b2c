"""A user's model.py: how it is read, initialised and asked."""

import importlib.util
import inspect
import json
import os
import sys
import traceback

import area
import triton_python_backend_utils as pb_utils

# Codes of gRPC, by those of TritonError.
_CODES = [2, 13, 5, 3, 14, 12, 6, 1]
_INTERNAL = 13
_NUMBERS = {"dims", "shape", "versions", "preferred_batch_size"}
_FORBIDDEN = ("; a model may not write files, open sockets or start processes: "
              "docs/python-models.md says how to do without")


class Stopped(BaseException):
    """The server has asked the run under way to end."""


def said(error, file):
    """In one line, with the line of model.py that it came from."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/" in frame.filename]
    own = [frame for frame in frames if os.path.dirname(file) in frame.filename] or frames
    place = f"{own[-1].filename}:{own[-1].lineno}: " if own else ""
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}:{error.lineno}: "
    text = traceback.format_exception_only(type(error), error)[-1].strip().replace("\n", " ")
    denied = isinstance(error, PermissionError) and error.errno in (1, 13)
    return (place + text + (_FORBIDDEN if denied else "")).encode("utf-8", "replace").decode()


def numbered(value, key=""):
    """JSON of protobufs has numbers of 64 bits as texts."""
    if isinstance(value, dict):
        return {k: v if key == "parameters" else numbered(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [numbered(one, key) for one in value]
    long = key in _NUMBERS or key.endswith("_microseconds")
    return int(value) if long and isinstance(value, str) else value


def import_model(file):
    folder = os.path.dirname(file)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location("model", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["model"] = module
    spec.loader.exec_module(module)
    if not hasattr(module, "TritonPythonModel"):
        raise pb_utils.TritonModelException(f"{file}: has no class TritonPythonModel")
    return module.TritonPythonModel


def complete(message):
    """The configuration, as auto_complete_config leaves it."""
    config = numbered(json.loads(message["config"]))
    model_class = import_model(message["file"])
    if hasattr(model_class, "auto_complete_config"):
        completed = pb_utils.ModelConfig(config)
        returned = model_class.auto_complete_config(completed)
        config = (returned or completed).as_dict()
    return json.dumps(config)


class Model:
    """An instance of it, loaded."""

    def __init__(self, message):
        self.file, self.name = message["file"], message["model"]
        self.inputs, self.outputs, self.batches = message["inputs"], message["outputs"], message["batches"]
        self._instance = import_model(self.file)()
        config = json.dumps(numbered(json.loads(message["config"])))
        if hasattr(self._instance, "initialize"):
            self._instance.initialize({
                "model_config": config, "model_instance_kind": "CPU", "model_instance_name": f"{self.name}_0",
                "model_instance_device_id": "0", "model_repository": os.path.dirname(os.path.dirname(self.file)),
                "model_version": message["version"], "model_name": self.name})

    def finalize(self):
        if hasattr(self._instance, "finalize"):
            self._instance.finalize()

    def run(self, batch, stopped):
        """Of each part its outputs, or (code, text)."""
        names = [self.outputs[output]["name"] for output in batch.outputs]
        requests = [pb_utils.InferenceRequest(
            self.name, list(names), [pb_utils.Tensor(name, array) for name, array in part.inputs],
            _part=(part.notes, part.deadline, stopped)) for part in batch.parts]
        deadlines = [part.deadline for part in batch.parts]
        pb_utils.InferenceRequest.calls.deadline = None if None in deadlines else max(deadlines)
        try:
            responses = self._instance.execute(requests)
            if inspect.iscoroutine(responses):
                import asyncio  # only models that need it wait for it
                responses = asyncio.run(responses)
        except (SystemExit, Stopped):
            raise
        except BaseException as error:  # asyncio.CancelledError is no Exception
            pb_utils.Logger.write("".join(traceback.format_exception(type(error), error, error.__traceback__)), "error")
            return [(_INTERNAL, said(error, self.file))] * len(requests)
        if not isinstance(responses, (list, tuple)):
            return [(_INTERNAL, f"{self.file}: execute returned {type(responses).__name__}, expected a list with an "
                                "InferenceResponse for each request")] * len(requests)
        if len(responses) != len(requests):
            return [(_INTERNAL, f"{self.file}: execute returned {len(responses)} responses to {len(requests)} "
                                "requests")] * len(requests)
        return [self._result(response, part, names, batch.outputs)
                for response, part in zip(responses, batch.parts)]

    def _result(self, response, part, names, places):
        if not isinstance(response, pb_utils.InferenceResponse):
            return (_INTERNAL, f"{self.file}: execute returned {type(response).__name__}, expected "
                               "InferenceResponse")
        if response.has_error():
            code = response.error().code()
            known = isinstance(code, int) and 0 <= code < len(_CODES)
            return (_CODES[code] if known else _INTERNAL, str(response.error().message()))
        try:
            return [self._output(response, name, place, part.items) for name, place in zip(names, places)]
        except area.Wrong as wrong:
            return (_INTERNAL, f"{self.file}: {wrong}")
        except Exception as error:  # of a text's __str__
            return (_INTERNAL, said(error, self.file))

    def _output(self, response, name, place, items):
        tensor = pb_utils.get_output_tensor_by_name(response, name)
        if tensor is None:
            raise area.Wrong(f"the response has no output '{name}'")
        return area.as_output(name, tensor.as_numpy(), self.outputs[place], self.batches, items)
