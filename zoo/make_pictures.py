#!/usr/bin/env python3
"""Draws the photographs with known text of the demo zoo: zoo/data/photographs/*.jpg and lines.json.

Signs on coloured boards, seen from the side, out of focus, with noise; some hang upside down. Needs
Pillow and numpy (zoo/requirements.txt). The same seed draws the same pictures.
"""

import json
import pathlib

import numpy
from PIL import Image, ImageDraw, ImageFilter, ImageFont

FOLDER = pathlib.Path(__file__).resolve().parent / "data" / "photographs"
SIZE = (640, 480)
WORDS = """platform departs ticket garden museum harbour market station library bakery engine orchestra
violin concert tempo fermata measure signal bridge river castle village summer winter evening morning
express local closed open entrance exit please mind the gap keep left no parking fresh bread two for one
gate room floor north south east west""".split()


def sentence(rng):
    words = [str(rng.choice(WORDS)) for _ in range(rng.integers(1, 4))]
    if rng.random() < 0.4:
        words.append(str(rng.integers(2, 990)))
    text = " ".join(words)
    return {0: text.upper(), 1: text.title(), 2: text}[int(rng.integers(0, 3))]


def board(rng, upside_down):
    """A sign of some lines: the picture and what stands on it."""
    dark = rng.integers(0, 90, 3)
    light = rng.integers(160, 256, 3)
    paper, ink = (light, dark) if rng.random() < 0.6 else (dark, light)
    image = Image.new("RGB", SIZE, tuple(int(v) for v in paper))
    draw = ImageDraw.Draw(image)
    lines, top = [], int(rng.integers(30, 70))
    while top < SIZE[1] - 90 and len(lines) < 5:
        size = int(rng.integers(18, 44))
        text = sentence(rng)
        font = ImageFont.load_default(size)
        width = draw.textlength(text, font=font)
        if width > SIZE[0] - 80:
            continue
        draw.text((int(rng.integers(40, int(SIZE[0] - 39 - width))), top), text, font=font,
                  fill=tuple(int(v) for v in ink))
        lines.append(text)
        top += int(size * 1.2 + rng.integers(18, 40))
    return (image.rotate(180) if upside_down else image), lines


def seen(rng, image):
    """As a cheap camera sees it: from the side, blurred, unevenly lit, noisy."""
    corners = [(0, 0), (SIZE[0], 0), (SIZE[0], SIZE[1]), (0, SIZE[1])]
    moved = [(x + rng.uniform(-22, 22), y + rng.uniform(-16, 16)) for x, y in corners]
    rows = []
    for (x, y), (u, v) in zip(corners, moved):
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y])
    transform = numpy.linalg.solve(numpy.array(rows), numpy.array(moved).reshape(-1))
    image = image.transform(SIZE, Image.Transform.PERSPECTIVE, tuple(transform),
                            Image.Resampling.BICUBIC, fillcolor=(90, 90, 90))
    image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0.2, 1.1)))
    light = numpy.linspace(rng.uniform(0.75, 1), rng.uniform(0.75, 1), SIZE[0])[None, :, None]
    pixels = numpy.asarray(image) * light + rng.normal(0, rng.uniform(2, 9), (SIZE[1], SIZE[0], 1))
    return Image.fromarray(numpy.clip(pixels, 0, 255).astype("uint8"))


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    rng = numpy.random.default_rng(20)
    truth = {}
    for i in range(20):
        image, lines = board(rng, upside_down=i % 5 == 4)
        name = f"sign-{i:02}.jpg"
        seen(rng, image).save(FOLDER / name, quality=82)
        truth[name] = lines
    Image.new("RGB", SIZE, (120, 150, 180)).save(FOLDER / "no-text.jpg", quality=82)
    truth["no-text.jpg"] = []
    (FOLDER / "lines.json").write_text(json.dumps(truth, indent=1) + "\n")


if __name__ == "__main__":
    main()
