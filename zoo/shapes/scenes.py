"""Draws scenes: flat shapes on cluttered ground, and where each of them lies."""

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

CLASSES = ("disc", "ring", "square", "triangle", "cross", "star")
SIDE = 256
SMALLEST, LARGEST = 0.05, 0.2  # of a shape, of the scene's side
LEAST_CONTRAST = 180  # of a shape and the ground, all channels together
FINER = 2  # drawn so much larger, so that edges are smooth


def outline(kind, radius, angle):
    """The corners of a shape around (0, 0); none of what is round."""
    def corners(count, radii):
        turns = angle + 2 * np.pi * np.arange(count * len(radii)) / (count * len(radii))
        return np.stack([np.cos(turns), np.sin(turns)], 1) * np.tile(radii, count)[:, None]

    if kind == "cross":
        arm = radius * 0.36
        plus = np.array([(radius, -arm), (radius, arm), (arm, arm)])
        quarter = np.array([(0, 1), (-1, 0)])
        around = np.concatenate([plus @ np.linalg.matrix_power(quarter, k) for k in range(4)])
        turn = np.array([(np.cos(angle), np.sin(angle)), (-np.sin(angle), np.cos(angle))])
        return around @ turn
    return {"square": lambda: corners(4, [radius]), "triangle": lambda: corners(3, [radius]),
            "star": lambda: corners(5, [radius, radius * 0.42])}[kind]()


def ground(rng, side):
    """Soft blotches with lines across."""
    small = rng.integers(0, 256, (4, 4, 3), np.uint8)
    image = Image.fromarray(small).resize((side, side), Image.BICUBIC)
    draw = ImageDraw.Draw(image)
    for _ in range(rng.integers(4, 14)):
        draw.line([tuple(p) for p in rng.integers(0, side, (2, 2)).tolist()],
                  tuple(rng.integers(0, 256, 3).tolist()), int(rng.integers(1, side // 40)))
    return image, draw


def unlike(rng, image, at):
    """A colour that stands out from what is there."""
    there = np.array(image.getpixel(tuple(at.astype(int).tolist())), int)
    while True:
        colour = rng.integers(0, 256, 3)
        if np.abs(colour - there).sum() > LEAST_CONTRAST:
            return tuple(colour.tolist())


def scene(rng):
    """uint8 [SIDE, SIDE, 3], and an array of rows class, x0, y0, x1, y1 in fractions of it."""
    side = SIDE * FINER
    image, draw = ground(rng, side)
    taken, rows = [], []
    for _ in range(rng.integers(3, 11)):
        kind = int(rng.integers(len(CLASSES)))
        radius = side * 0.5 * SMALLEST * (LARGEST / SMALLEST) ** rng.random()
        at = rng.uniform(radius, side - radius, 2)
        if any(np.hypot(*(at - other)) < radius + reach for other, reach in taken):
            continue
        taken.append((at, radius))
        colour = unlike(rng, image, at)
        if CLASSES[kind] in ("disc", "ring"):
            box = [*(at - radius), *(at + radius)]
            if CLASSES[kind] == "disc":
                draw.ellipse(box, colour)
            else:
                draw.ellipse(box, None, colour, max(1, int(radius * 0.4)))
        else:
            points = outline(CLASSES[kind], radius, rng.uniform(0, 2 * np.pi)) + at
            draw.polygon([tuple(p) for p in points.tolist()], colour)
            box = [*points.min(0), *points.max(0)]
        rows.append([kind, *(np.clip(box, 0, side) / side)])
    image = image.resize((SIDE, SIDE), Image.BOX)
    image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0, 0.8)))
    noisy = np.asarray(image) + rng.normal(0, rng.uniform(1, 10), (SIDE, SIDE, 1))
    return np.clip(noisy, 0, 255).astype(np.uint8), np.array(rows, np.float32).reshape(-1, 5)


def resized(image, side):
    return np.asarray(Image.fromarray(image).resize((side, side), Image.BOX))


def view(rng, image, rows, side):
    """A part of a scene at a scale of its own, flipped or not: pixels and rows as scene() has
    them, of the shapes whose middle is in it."""
    whole = image.shape[0]
    part = int(rng.integers(side, whole + 1))
    x, y = rng.integers(0, whole - part + 1, 2)
    pixels = resized(image[y:y + part, x:x + part], side)
    moved = rows.copy()
    moved[:, 1:] = (rows[:, 1:] * whole - [x, y, x, y]) / part
    middle = (moved[:, 1:3] + moved[:, 3:]) / 2
    moved = moved[((middle > 0) & (middle < 1)).all(1)]
    if rng.random() < 0.5:
        pixels = pixels[:, ::-1]
        moved[:, [1, 3]] = 1 - moved[:, [3, 1]]
    return pixels, moved
