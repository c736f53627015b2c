"""Frames as tensors. An encoder is called with a frame (a numpy array [height, width, channels]
of bytes) and the side that the service asks for, and returns the array to send."""

import io

import numpy as np
from PIL import Image


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


class Pixels:
    """float32 in [0, 1], [1, channels, side, side]."""

    def __call__(self, frame, side):
        pixels = resized(frame, side).astype(np.float32) / 255
        return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])
