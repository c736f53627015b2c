"""Reads and checks what `fermata difficulty fit` wrote and the queries it is about."""

import dataclasses
import json
import math

import numpy as np

LEAST = 20  # queries: of fewer, nothing can be held out


class BadInput(Exception):
    """Says which file, what stands there and what was expected."""


@dataclasses.dataclass
class History:
    features: np.ndarray  # FP32 [n, ...], as the base models take them
    image: tuple | None   # channels, height, width; None: a dense network's
    models: list
    classification: bool
    outputs: np.ndarray   # FP32 [n, models, width]
    ensemble: np.ndarray  # FP32 [n, width]
    target: np.ndarray | None  # FP32 [n], in [0, 1]
    labels: np.ndarray | None  # INT64 [n] of classes, or FP32 [n, width]


def read_history(folder, features, target=None, labels=None, image=None, network=None):
    models, classification = _read_profile(folder / "profile.json")
    asked = _read(features)
    n = len(asked)
    if n < LEAST:
        raise BadInput(f"{features}: {n} queries, expected at least {LEAST}")
    ensemble = _rows(folder / "ensemble.npy", n, features)
    outputs = [_rows(folder / f"outputs-{model}.npy", n, features) for model in models]
    for model, output in zip(models, outputs):
        if output.shape != ensemble.shape:
            raise BadInput(f"{folder / f'outputs-{model}.npy'}: {output.shape[1]} numbers a query, "
                           f"expected {ensemble.shape[1]} as in ensemble.npy")
    return History(
        asked, _image(asked, image, network, features), models, classification,
        np.stack(outputs, axis=1), ensemble,
        target and _scores(folder / f"{target}.npy", n, features),
        None if labels is None else _labels(labels, n, features, ensemble, classification))


def _read_profile(path):
    try:
        profile = json.loads(path.read_text())
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); run `fermata difficulty fit` "
                       "first") from error
    except ValueError as error:
        raise BadInput(f"{path}: is not JSON ({error})") from error
    models = profile.get("models") if isinstance(profile, dict) else None
    if not isinstance(models, list) or not models or not all(isinstance(m, str) for m in models):
        raise BadInput(f"{path}: no list 'models' of names")
    task = profile.get("task")
    if task not in ("classification", "regression"):
        raise BadInput(f"{path}: task is {task!r}, expected classification or regression")
    return models, task == "classification"


def _read(path):
    """FP32, at least one axis, every number finite."""
    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error})") from error
    except ValueError as error:
        raise BadInput(f"{path}: is not a .npy file of numbers ({error})") from error
    if not isinstance(array, np.ndarray) or array.ndim < 1 or array.dtype.kind not in "fiub":
        raise BadInput(f"{path}: is not a .npy file of numbers, one row a query")
    array = array.astype(np.float32)
    if not np.isfinite(array).all():
        row = np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))[0]
        raise BadInput(f"{path}: query {row} has a number that is not finite")
    return array


def _counted(path, n, features):
    array = _read(path)
    if len(array) != n:
        raise BadInput(f"{path}: {len(array)} queries, but {features} has {n}")
    return array


def _rows(path, n, features):
    return _counted(path, n, features).reshape(n, -1)


def _scores(path, n, features):
    scores = _rows(path, n, features)
    if scores.shape[1] != 1:
        raise BadInput(f"{path}: {scores.shape[1]} numbers a query, expected one")
    outside = np.flatnonzero((scores < 0) | (scores > 1))
    if len(outside):
        raise BadInput(f"{path}: query {outside[0]} has {scores[outside[0], 0]:g}, expected 0 to 1")
    return scores[:, 0]


def _labels(path, n, features, ensemble, classification):
    labels = _rows(path, n, features)
    width = ensemble.shape[1]
    if not classification:
        if labels.shape[1] != width:
            raise BadInput(f"{path}: {labels.shape[1]} numbers a query, expected {width}")
        return labels
    wrong = np.flatnonzero((labels < 0) | (labels >= width) | (labels != np.floor(labels)))
    if labels.shape[1] != 1 or len(wrong):
        raise BadInput(f"{path}: expected one class from 0 to {width - 1} a query")
    return labels[:, 0].astype(np.int64)


def _image(features, image, network, path):
    """What a convolutional network sees a query as; None for a dense one."""
    shape = features.shape[1:]
    if image is not None:
        if math.prod(image) != math.prod(shape):
            raise BadInput(f"{path}: queries have {math.prod(shape)} numbers, an image of "
                           f"{','.join(map(str, image))} has {math.prod(image)}")
    elif len(shape) == 3:
        image = shape
    elif len(shape) == 2:
        image = (1, *shape)
    if network == "convolutional" and image is None:
        raise BadInput(f"{path}: queries are flat; --image says how a convolutional network "
                       "should see them")
    return None if network == "dense" else image
