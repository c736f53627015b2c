"""Mean average precision of a detector."""

import numpy as np

OVERLAP = 0.5  # intersection over union from which on a box is the right one


def overlap(box, others):
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    both = np.prod(np.maximum(high - low, 0), axis=1)
    area = lambda b: np.prod(b[..., 2:] - b[..., :2], axis=-1)
    return both / np.maximum(area(box) + area(others) - both, 1e-9)


def average_precision(found, truth):
    """`found`: (score, picture, box); `truth`: boxes by picture. The area under the curve of
    precision over recall, each precision the best at that recall or beyond."""
    found = sorted(found, key=lambda f: -f[0])
    taken = {picture: np.zeros(len(boxes), bool) for picture, boxes in truth.items()}
    right = np.zeros(len(found))
    for i, (_, picture, box) in enumerate(found):
        boxes = truth.get(picture)
        if boxes is None:
            continue
        shares = overlap(box, boxes)
        best = int(shares.argmax())
        if shares[best] >= OVERLAP and not taken[picture][best]:
            taken[picture][best] = right[i] = 1
    total = sum(len(boxes) for boxes in truth.values())
    recall = np.cumsum(right) / total
    precision = np.cumsum(right) / (np.arange(len(found)) + 1)
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    return float((np.diff(recall, prepend=0) * precision).sum())


def mean_average_precision(answers, truths, classes):
    """`answers`: (boxes, scores, classes) by picture; `truths`: rows class, x0, y0, x1, y1.
    The mean over the classes, and each class's own."""
    by_class = []
    for kind in range(classes):
        truth = {i: rows[rows[:, 0] == kind, 1:] for i, rows in enumerate(truths)
                 if (rows[:, 0] == kind).any()}
        found = [(score, i, box) for i, answer in enumerate(answers)
                 for box, score, c in zip(*answer) if c == kind]
        by_class.append(average_precision(found, truth))
    return float(np.mean(by_class)), by_class
