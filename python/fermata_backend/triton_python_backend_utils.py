"""What model.py imports as triton_python_backend_utils: Triton's interface, served by Fermata."""

import concurrent.futures
import json
import struct
import sys
import time

import fermata_calls
import numpy

_TYPES = {
    "TYPE_BOOL": numpy.bool_, "TYPE_UINT8": numpy.uint8, "TYPE_UINT16": numpy.uint16,
    "TYPE_UINT32": numpy.uint32, "TYPE_UINT64": numpy.uint64, "TYPE_INT8": numpy.int8,
    "TYPE_INT16": numpy.int16, "TYPE_INT32": numpy.int32, "TYPE_INT64": numpy.int64,
    "TYPE_FP16": numpy.float16, "TYPE_FP32": numpy.float32, "TYPE_FP64": numpy.float64,
    "TYPE_STRING": numpy.object_}


class TritonModelException(Exception):
    """What goes wrong in these functions, and what a model may raise."""


class TritonError:
    """Why one request fails, with one of the codes below."""

    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = range(8)

    def __init__(self, message, code=INTERNAL):
        self._message, self._code = str(message), code

    def message(self):
        return self._message

    def code(self):
        return self._code

    __str__ = message


def _not_served(what):
    return TritonModelException(f"{what} is not served: docs/python-models.md says what is")


class Tensor:
    """A named numpy array; texts are an array of objects that holds bytes."""

    def __init__(self, name, array):
        if not isinstance(array, numpy.ndarray):
            raise TritonModelException(
                f"Tensor '{name}': {type(array).__name__} is no numpy array; numpy.array() makes one")
        if array.dtype.kind in "SU":
            array = array.astype(object)
        self._name, self._array = name, array

    def name(self):
        return self._name

    def as_numpy(self):
        return self._array

    def triton_dtype(self):
        return numpy_to_triton_type(self._array.dtype.type)

    def shape(self):
        return list(self._array.shape)

    def is_cpu(self):
        return True

    @staticmethod
    def from_dlpack(name, tensor):
        return Tensor(name, numpy.from_dlpack(tensor))

    def to_dlpack(self):
        return self._array.__dlpack__()

    def __dlpack__(self, stream=None):
        return self._array.__dlpack__()

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class InferenceResponse:
    """The outputs of one request, or why it has none."""

    def __init__(self, output_tensors=(), error=None, parameters=None):
        self._tensors = list(output_tensors or ())
        for tensor in self._tensors:
            if not isinstance(tensor, Tensor):
                raise TritonModelException(
                    f"InferenceResponse: output_tensors has {type(tensor).__name__}, expected Tensor")
        if error is not None and not isinstance(error, TritonError):
            error = TritonError(error)
        self._error = error

    def output_tensors(self):
        return self._tensors

    def has_error(self):
        return self._error is not None

    def error(self):
        return self._error


class InferenceRequest:
    """One request of a batch, or a call of another model."""

    calls = None  # how another is called (worker.py)

    def __init__(self, model_name="", requested_output_names=(), inputs=(), request_id="", correlation_id=0,
                 model_version=-1, flags=0, preferred_memory=None, timeout=0, parameters=None, trace=None,
                 _part=None):
        self._inputs, self._outputs, self._model = inputs, requested_output_names, model_name
        self._version, self._timeout = model_version, timeout
        own = json.loads(parameters) if isinstance(parameters, str) else parameters
        notes = {"id": request_id, "parameters": own or {}}
        self._notes, self._deadline, self._stopped = _part or (notes, None, lambda: False)

    def inputs(self):
        return self._inputs

    def requested_output_names(self):
        return self._outputs

    def request_id(self):
        return self._notes.get("id", "")

    def correlation_id(self):
        return 0

    def flags(self):
        return 0

    def model_name(self):
        return self._model

    def model_version(self):
        return -1

    def parameters(self):
        """A JSON object, as a text."""
        return json.dumps(self._notes.get("parameters", {}))

    def timeout(self):
        """Microseconds that are left; 0 where there is no deadline."""
        if self._deadline is None:
            return 0
        return max(1, (self._deadline - time.monotonic_ns()) // 1000)

    def is_cancelled(self):
        """Whether nobody waits for it any more: its deadline has passed, or the run is stopped."""
        return self._stopped() or (self._deadline is not None and time.monotonic_ns() > self._deadline)

    def get_response_sender(self):
        raise _not_served("a response sender (a decoupled model)")

    def exec(self, decoupled=False):
        """The InferenceResponse of another model, which runs on another worker."""
        answer = self._begin(decoupled)
        try:
            while True:
                try:
                    return _response_of(*answer.result(timeout=0.05))  # a stop is heeded between two
                except concurrent.futures.TimeoutError:
                    pass
        finally:
            self.calls.cancel(answer)

    def async_exec(self, decoupled=False):
        """The same, to be awaited."""
        answer = self._begin(decoupled)

        async def awaited():
            import asyncio  # only models that need it wait for it
            try:
                return _response_of(*await asyncio.shield(asyncio.wrap_future(answer)))
            finally:
                self.calls.cancel(answer)
        return awaited()

    def _begin(self, decoupled):
        if decoupled:
            raise _not_served("a call with several responses (decoupled=True)")
        deadline = self.calls.deadline
        if self._timeout > 0:
            own = time.monotonic_ns() + self._timeout * 1000
            deadline = own if deadline is None else min(own, deadline)
        return self.calls.begin({
            "model": self._model, "version": str(self._version) if self._version > 0 else "",
            "request_id": self._notes["id"], "parameters": self._notes["parameters"],
            "outputs": list(self._outputs), "deadline": deadline}, self._inputs)


# Of TritonError, by the codes of gRPC.
_ERRORS = {3: TritonError.INVALID_ARG, 5: TritonError.NOT_FOUND, 6: TritonError.ALREADY_EXISTS, 11: TritonError.INVALID_ARG,
           12: TritonError.UNSUPPORTED, 13: TritonError.INTERNAL, 1: TritonError.CANCELLED, 4: TritonError.UNAVAILABLE,
           8: TritonError.UNAVAILABLE, 14: TritonError.UNAVAILABLE}


def _response_of(message, data):
    if message["code"] != 0:
        return InferenceResponse(error=TritonError(message["error"], _ERRORS.get(message["code"], TritonError.UNKNOWN)))
    return InferenceResponse([Tensor(name, array) for name, array in fermata_calls.tensors_of(message, data)])


def _named(tensors, name):
    return next((tensor for tensor in tensors if tensor.name() == name), None)


def get_input_tensor_by_name(request, name):
    return _named(request.inputs(), name)


def get_output_tensor_by_name(response, name):
    return _named(response.output_tensors(), name)


def _config_by_name(config, kind, name):
    return next((tensor for tensor in config.get(kind, []) if tensor["name"] == name), None)


def get_input_config_by_name(model_config, name):
    return _config_by_name(model_config, "input", name)


def get_output_config_by_name(model_config, name):
    return _config_by_name(model_config, "output", name)


def using_decoupled_model_transaction_policy(model_config):
    return bool(model_config.get("model_transaction_policy", {}).get("decoupled", False))


def triton_to_numpy_type(data_type):
    return _TYPES["TYPE_STRING" if data_type == "TYPE_BYTES" else data_type]


def triton_string_to_numpy(data_type):
    return _TYPES.get(data_type)


def numpy_to_triton_type(data_type):
    for name, known in _TYPES.items():
        if known is data_type:
            return name
    raise TritonModelException(f"numpy's {data_type} is no type of a tensor")


def serialize_byte_tensor(tensor):
    """Each text with its length before it; an array of one object that holds all of them."""
    texts = [text if isinstance(text, bytes) else str(text).encode() for text in tensor.ravel()]
    joined = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    return numpy.array([joined] if texts else [], dtype=object)


def deserialize_bytes_tensor(encoded):
    texts, at = [], 0
    while at < len(encoded):
        (length,) = struct.unpack_from("<I", encoded, at)
        texts.append(bytes(encoded[at + 4:at + 4 + length]))
        at += 4 + length
    array = numpy.empty(len(texts), dtype=object)
    array[:] = texts
    return array


def get_model_dir():
    return Logger.folder


class Logger:
    """Lines of the server's log, with the model's name."""

    model = folder = ""
    stream = sys.stderr

    @classmethod
    def log(cls, text, level=None):
        cls.write(str(text), level or "info")

    @classmethod
    def write(cls, text, level):
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06}Z"
        for line in text.rstrip("\n").split("\n"):
            said = {"time": stamp, "level": level, "message": f"model '{cls.model}': {line}"}
            cls._line(json.dumps(said, separators=(",", ":")) + "\n")

    @classmethod
    def _line(cls, line):
        try:
            cls.stream.write(line)
            cls.stream.flush()
        except (OSError, ValueError):  # the log is full or closed: no reason to fail a request
            pass

    @classmethod
    def log_info(cls, text):
        cls.write(str(text), "info")

    @classmethod
    def log_warn(cls, text):
        cls.write(str(text), "warning")

    @classmethod
    def log_error(cls, text):
        cls.write(str(text), "error")

    @classmethod
    def log_verbose(cls, text):
        cls.write(str(text), "debug")

    INFO, WARNING, ERROR, VERBOSE = "info", "warning", "error", "debug"


class ModelConfig:
    """What auto_complete_config fills in. What config.pbtxt says stays."""

    def __init__(self, config):
        self._config = config

    def as_dict(self):
        return self._config

    def set_max_batch_size(self, size):
        known = self._config.get("max_batch_size", 0)
        if known > 0 and known < size:
            raise ValueError(f"max_batch_size: config.pbtxt has {known}, auto_complete_config {size}")
        if "max_batch_size" not in self._config:
            self._config["max_batch_size"] = size

    def set_dynamic_batching(self):
        self._config.setdefault("dynamic_batching", {})

    def set_model_transaction_policy(self, policy):
        self._config.setdefault("model_transaction_policy", dict(policy))

    def add_input(self, tensor):
        self._add("input", tensor, {"name", "data_type", "dims", "optional"})

    def add_output(self, tensor):
        self._add("output", tensor, {"name", "data_type", "dims"})

    def _add(self, kind, tensor, fields):
        for field in ("name", "data_type", "dims"):
            if field not in tensor:
                raise ValueError(f"{kind} {tensor.get('name', '?')!r} has no {field}")
        if unknown := set(tensor) - fields:
            raise ValueError(f"{kind} {tensor['name']!r} has {sorted(unknown)}, expected {sorted(fields)}")
        known = _config_by_name(self._config, kind, tensor["name"])
        if known is None:
            self._config.setdefault(kind, []).append(dict(tensor))
            return
        if known.get("data_type", "TYPE_INVALID") == "TYPE_INVALID":
            known["data_type"] = tensor["data_type"]
        if not known.get("dims"):
            known["dims"] = list(tensor["dims"])
        for field in ("data_type", "dims"):
            if known[field] != tensor[field]:
                raise ValueError(f"{kind} {tensor['name']!r}: config.pbtxt has {field} {known[field]}, "
                                 f"auto_complete_config {tensor[field]}")
