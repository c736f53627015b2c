"""Frames as tensors. An encoder is called with a frame (a numpy array [height, width, channels]
of bytes) and the side that the service asks for, and returns the array to send."""

import io

import numpy as np
from PIL import Image


class ServiceError(Exception):
    """The server has no such service, or one that takes no such frames. Trying again does not help."""


def resized(frame, side):
    """uint8 [side, side, channels]."""
    if frame.shape[0] == side and frame.shape[1] == side:
        return frame
    return np.asarray(Image.fromarray(frame).resize((side, side), Image.BILINEAR))


class Jpeg:
    """One JPEG a frame, as a BYTES tensor [1, 1] (or [1] without a batch dimension)."""

    def __init__(self, quality=90, batched=True):
        self._quality, self._shape = quality, (1, 1) if batched else (1,)

    def __call__(self, frame, side):
        buffer = io.BytesIO()
        Image.fromarray(resized(frame, side)).save(buffer, "JPEG", quality=self._quality)
        return np.array([buffer.getvalue()], dtype=np.object_).reshape(self._shape)


class Bytes:
    """The pixels as they are: uint8 [1, side, side, channels] (or without the 1)."""

    def __init__(self, batched=True):
        self._batched = batched

    def __call__(self, frame, side):
        pixels = np.ascontiguousarray(resized(frame, side))
        return pixels[None] if self._batched else pixels


class Pixels:
    """float32 in [0, 1], [1, channels, side, side] (or without the 1)."""

    def __init__(self, batched=True):
        self._batched = batched

    def __call__(self, frame, side):
        pixels = np.ascontiguousarray((resized(frame, side).astype(np.float32) / 255).transpose(2, 0, 1))
        return pixels[None] if self._batched else pixels


def encoder_for(name, datatype, shape):
    """What an input of a service takes of a frame, by its metadata: a JPEG where it takes bytes, else
    pixels."""
    def item(rank):  # without a dimension of items; None: it has another rank
        if len(shape) == rank:
            return list(shape), False
        fits = len(shape) == rank + 1 and shape[0] in (-1, 1)
        return (list(shape[1:]), True) if fits else (None, False)

    dims, batched = item(1)
    if datatype == "BYTES" and dims is not None and dims[0] in (1, -1):
        return Jpeg(batched=batched)
    dims, batched = item(3)
    if datatype == "UINT8" and dims is not None and dims[2] == 3:
        return Bytes(batched)
    if datatype == "FP32" and dims is not None and dims[0] == 3:
        return Pixels(batched)
    raise ServiceError(f"input '{name}' is {datatype} {list(shape)}, expected BYTES [1] for a JPEG, UINT8 "
                       "[height, width, 3] or FP32 [3, height, width]; or give `encode`, which makes an array "
                       "of a frame and a side")
