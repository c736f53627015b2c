"""The memory that the server and this process share (src/engine/apart/layout.h): batches in, replies out."""

import ctypes
import json
import mmap
import platform
import struct

import numpy

_FUTEX = 202 if platform.machine() == "x86_64" else 98
_WAIT, _WAKE = 0, 1
_LIFE, _SLOTS, _REQUEST, _REPLY, _REPLY_SIZE, _ANSWERED = 64, 4096, 4096, 65536, 65536, 64
_RECORD = struct.Struct("<4IQQ16q")
_PART = struct.Struct("<IIQqII")
_HEAD = struct.Struct("<8I")
_REPLY_HEAD = struct.Struct("<8IQ")
_WHOLE = 0xFFFFFFFF
_NO_DEADLINE = 2**61 - 1
_BYTES = 13
_BF16 = 10
_LONGEST_TEXT = 4096
# In the order of the protocol's datatypes; BF16 has no numpy type and comes as its bits.
DATATYPES = ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "BF16",
             "FP32", "FP64", "BYTES"]
_NUMPY = [numpy.dtype(name) for name in ("bool", "u1", "<u2", "<u4", "<u8", "i1", "<i2", "<i4", "<i8", "<f2",
                                         "<u2", "<f4", "<f8", "object")]


class Wrong(Exception):
    """A response that cannot be given as it is: its request fails, with this text."""


class Part:
    """One request of a batch, or some items of one."""

    def __init__(self, items, deadline, notes):
        self.items, self.deadline, self.notes, self.inputs = items, deadline, notes, []


class Batch:
    def __init__(self, number, variant, outputs, parts):
        self.number, self.variant, self.outputs, self.parts = number, variant, outputs, parts


def _texts(data, count):
    texts, at = numpy.empty(count, dtype=object), 0
    for i in range(count):
        (length,) = struct.unpack_from("<I", data, at)
        texts[i] = bytes(data[at + 4:at + 4 + length])
        at += 4 + length
    return texts


def _as_bytes(where, array):
    """An array of the same shape that holds bytes only."""
    texts = numpy.empty(array.size, dtype=object)
    for i, text in enumerate(array.ravel()):
        try:
            texts[i] = text if isinstance(text, bytes) else str(text).encode()
        except UnicodeError as error:
            raise Wrong(f"{where}: text {i} cannot be written as UTF-8 ({error})")
    return texts.reshape(array.shape)


def _text_bytes(array):
    return b"".join(struct.pack("<I", len(text)) + text for text in array.ravel())


class Area:
    """All of it, with the one slot that a Python process has."""

    def __init__(self, fd):
        self._map = mmap.mmap(fd, 0)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._memory = memoryview(self._map)
        _, self._data, self._each, self._inputs_each = struct.unpack_from("<QQQQ", self._map, 16)
        self._asked = ctypes.c_uint32.from_address(self._base + _SLOTS)
        self._answered = ctypes.c_uint32.from_address(self._base + _SLOTS + _ANSWERED)
        self._asked_at = ctypes.c_void_p(self._base + _SLOTS)
        self._answered_at = ctypes.c_void_p(self._base + _SLOTS + _ANSWERED)

    def show_life(self):
        """The calling thread's end is the process's."""
        self._libc.pthread_mutex_lock(ctypes.c_void_p(self._base + _LIFE))

    def asked(self):
        return self._asked.value

    def wait(self, seen):
        """Until another batch than that is asked for, or wake() is called, or nothing."""
        self._libc.syscall(_FUTEX, self._asked_at, _WAIT, ctypes.c_uint32(seen), None, None, 0)

    def wake(self):
        self._libc.syscall(_FUTEX, self._asked_at, _WAKE, 2**31 - 1, None, None, 0)

    def answer(self, number):
        self._answered.value = number
        self._libc.syscall(_FUTEX, self._answered_at, _WAKE, 2**31 - 1, None, None, 0)

    def variant(self):
        return struct.unpack_from("<I", self._map, _SLOTS + _REQUEST + 4)[0]

    def fail(self, number, text, nanos=0, code=8):
        """The whole batch."""
        said = text.encode("utf-8", "replace")[:_LONGEST_TEXT]
        at = _SLOTS + _REPLY
        _REPLY_HEAD.pack_into(self._map, at, number, code, _REPLY_HEAD.size, len(said), 0, 0, 0, 0, nanos)
        self._map[at + _REPLY_HEAD.size:at + _REPLY_HEAD.size + len(said)] = said

    def read(self, inputs, batches):
        """The batch that is asked for; each part has (name, array) of its inputs, which are its own."""
        start = at = _SLOTS + _REQUEST
        number, variant, _, _, given, wanted, count, _ = _HEAD.unpack_from(self._map, at)
        at += _HEAD.size
        records = [_RECORD.unpack_from(self._map, at + i * _RECORD.size) for i in range(given)]
        at += given * _RECORD.size
        outputs = struct.unpack_from(f"<{wanted}I", self._map, at)
        at += (wanted * 4 + 7) // 8 * 8
        parts = []
        for _ in range(count):
            items, _, _, deadline, notes, size = _PART.unpack_from(self._map, at)
            at += _PART.size
            said = json.loads(self._map[start + notes:start + notes + size]) if size else {}
            parts.append(Part(items, deadline if deadline < _NO_DEADLINE else None, said))
        for record in records:
            name, array = inputs[record[0]]["name"], self._array(record)
            if not batches:
                parts[0].inputs.append((name, array))
                continue
            first = 0
            for part in parts:
                part.inputs.append((name, array[first:first + part.items]))
                first += part.items
        return Batch(number, variant, outputs, parts)

    def _array(self, record):
        _, datatype, rank, _, offset, size = record[:6]
        shape = record[6:6 + rank]
        return array_of(DATATYPES[datatype], shape, self._memory[offset:offset + size])

    def reply(self, batch, specs, batches, results, nanos):
        """`results` by part: a list of arrays as batch.outputs has them, or (code, text)."""
        try:
            text = self._write(batch, specs, batches, results, nanos)
        except Wrong as wrong:
            text = str(wrong)
        if text is not None:
            self.fail(batch.number, text, nanos)

    def _write(self, batch, specs, batches, results, nanos):
        good = [i for i, result in enumerate(results) if isinstance(result, list)]
        together = len(good) == len(results) and (batches or len(results) == 1) and all(
            array.shape[1:] == results[0][k].shape[1:]
            for result in results for k, array in enumerate(result))
        records, place = [], self._data + self._inputs_each
        groups = [(_WHOLE, results)] if together else [(i, [results[i]]) for i in good]
        for part, group in groups:
            for k, output in enumerate(batch.outputs):
                shape = list(group[0][k].shape)
                if together and batches:
                    shape[0] = sum(result[k].shape[0] for result in group)
                size = 0
                datatype = DATATYPES.index(specs[output]["datatype"])
                for result in group:
                    size += self._put(result[k], datatype, place + size)
                records.append((output, datatype, len(shape), part, place, size, *shape, *[0] * (16 - len(shape))))
                place += (size + 63) // 64 * 64
        failed = [(i, *results[i]) for i in range(len(results)) if i not in set(good)]
        return self._write_records(batch.number, records, failed, nanos)

    def _put(self, array, datatype, place):
        end = self._data + self._each
        data = _text_bytes(array) if datatype == _BYTES else numpy.ascontiguousarray(array)
        size = len(data) if datatype == _BYTES else data.nbytes
        if place + size > end:
            raise Wrong(f"the outputs take more than the {(self._each - self._inputs_each) >> 20} MiB "
                        "that a worker's process has for them")
        if size:
            self._memory[place:place + size] = data if datatype == _BYTES else memoryview(data).cast("B")
        return size

    def _write_records(self, number, records, failed, nanos):
        at = start = _SLOTS + _REPLY
        text_at = _REPLY_HEAD.size + len(records) * _RECORD.size + len(failed) * 16
        if text_at > _REPLY_SIZE:
            return "the batch has more outputs than there is room to describe"
        _REPLY_HEAD.pack_into(self._map, at, number, 0, 0, 0, len(records), 0, len(failed), 0, nanos)
        at += _REPLY_HEAD.size
        for record in records:
            _RECORD.pack_into(self._map, at, *record)
            at += _RECORD.size
        for part, code, text in failed:
            said = text.encode("utf-8", "replace")[:_LONGEST_TEXT]
            said = said[:max(0, _REPLY_SIZE - text_at)]
            struct.pack_into("<4I", self._map, at, part, code, text_at, len(said))
            self._map[start + text_at:start + text_at + len(said)] = said
            at, text_at = at + 16, text_at + len(said)
        return None


def array_of(datatype, shape, data):
    """An array of its own."""
    if datatype == "BYTES":
        return _texts(data, int(numpy.prod(shape, dtype=numpy.int64))).reshape(shape)
    return numpy.frombuffer(data, dtype=_NUMPY[DATATYPES.index(datatype)]).reshape(shape).copy()


def as_input(name, array):
    """Of another model: its datatype and bytes."""
    if array.dtype == object:
        return "BYTES", _text_bytes(_as_bytes(f"input '{name}'", array))
    if array.dtype not in _NUMPY:
        raise Wrong(f"Tensor '{name}' has numpy's type {array.dtype}, which no datatype has")
    return DATATYPES[_NUMPY.index(array.dtype)], numpy.ascontiguousarray(array).tobytes()


def as_output(name, array, spec, batches, items):
    """The array as the model's configuration has that output; Wrong says why it is not."""
    datatype = DATATYPES.index(spec["datatype"])
    own = _NUMPY[datatype]
    if array.dtype != own:
        raise Wrong(f"output '{name}' has numpy's type {array.dtype}, the configuration has "
                    f"{spec['datatype']} ({own})")
    dims = ([items] if batches else []) + list(spec["model_dims"])
    fits = spec["any_rank"] or (len(dims) == array.ndim and all(
        want in (-1, has) for want, has in zip(dims, array.shape)))
    if spec["any_rank"] and batches:
        fits = array.ndim > 0 and array.shape[0] == items
    if not fits or array.ndim > 16:
        raise Wrong(f"output '{name}' has shape {list(array.shape)}, expected {dims}")
    return _as_bytes(f"output '{name}'", array) if datatype == _BYTES else array
