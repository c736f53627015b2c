#!/usr/bin/env python3
"""Draws the demo zoo's film with text, and measures text-192, text-320 and text-480 on pictures like it.

    .deps/test/bin/python zoo/measure_text.py [--binary build/fermata]

zoo/data/text-film: frames of three boards that a camera pans over, and where their lines lie (boxes.json: left, top,
right, bottom, of frames of 640 pixels a side). Measured on 60 boards of their own, as a client sends them and the
zoo's pipelines answer: a box is found where one of the answer covers it with an IoU of 0.5 at least, by upright
boxes; F1 over all lines goes into zoo/repository/text-SIDE/card.json. The same seed draws the same pictures. Needs
zoo/fetch, Pillow and numpy.
"""

import argparse
import io
import json
import pathlib
import re
import subprocess
import tempfile

import numpy
import tritonclient.http
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from make_pictures import sentence

ZOO = pathlib.Path(__file__).resolve().parent
FILM = ZOO / "data" / "text-film"
SIDE, SIDES = 640, (192, 320, 480)
BOARDS, FRAMES, SHOWN = 60, 7, 3  # measured on; of each that is shown
COVERED = 0.5


def board(rng):
    """Lines of several sizes on one ground: the picture, and the corners of each line, [n, 4, 2]."""
    dark, light = rng.integers(0, 90, 3), rng.integers(160, 256, 3)
    paper, ink = (light, dark) if rng.random() < 0.6 else (dark, light)
    image = Image.new("RGB", (SIDE, SIDE), tuple(int(v) for v in paper))
    draw, corners = ImageDraw.Draw(image), []
    top = int(rng.integers(30, 60))
    while top < SIDE - 80:
        size = int(numpy.exp(rng.uniform(numpy.log(10), numpy.log(44))))
        font, text = ImageFont.load_default(size), sentence(rng)
        left = int(rng.integers(30, SIDE // 2))
        box = draw.textbbox((left, top), text, font=font)
        top += int(size * 1.3 + rng.integers(14, 40))
        if box[2] > SIDE - 30:
            continue
        draw.text((left, box[1] - draw.textbbox((left, 0), text, font=font)[1]), text, font=font,
                  fill=tuple(int(v) for v in ink))
        corners.append([(box[0], box[1]), (box[2], box[1]), (box[2], box[3]), (box[0], box[3])])
    return image, numpy.array(corners, float)


def frame(rng, image, corners, zoom, turn, shift):
    """As a camera sees it: turned and moved a little, soft, with noise. The picture and upright boxes."""
    matrix = numpy.array([[numpy.cos(turn), -numpy.sin(turn)], [numpy.sin(turn), numpy.cos(turn)]]) * zoom
    middle = numpy.array([SIDE / 2, SIDE / 2])
    back = numpy.linalg.inv(matrix)  # where each pixel comes from
    offset = middle - back @ (middle + shift)
    coefficients = (back[0, 0], back[0, 1], offset[0], back[1, 0], back[1, 1], offset[1])
    seen = image.transform((SIDE, SIDE), Image.Transform.AFFINE, coefficients, Image.Resampling.BICUBIC,
                           fillcolor=(90, 90, 90)).filter(ImageFilter.GaussianBlur(rng.uniform(0.2, 0.8)))
    pixels = numpy.asarray(seen) + rng.normal(0, rng.uniform(1, 4), (SIDE, SIDE, 1))
    moved = (corners - middle) @ matrix.T + middle + shift
    boxes = numpy.concatenate([moved.min(1), moved.max(1)], 1)
    return Image.fromarray(numpy.clip(pixels, 0, 255).astype("uint8")), boxes.clip(0, SIDE)


def draw_film(rng):
    FILM.mkdir(parents=True, exist_ok=True)
    truth = {}
    for shown in range(SHOWN):
        image, corners = board(rng)
        for i in range(FRAMES):
            at = i / (FRAMES - 1) - 0.5
            picture, boxes = frame(rng, image, corners, 0.9 + 0.08 * at, 0.06 * at, numpy.array([20, -12]) * at)
            name = f"frame-{shown * FRAMES + i:02}.jpg"
            picture.save(FILM / name, quality=80)
            truth[name] = boxes.round(1).tolist()
    lines = [f" {json.dumps(name)}: {json.dumps(boxes)}" for name, boxes in truth.items()]
    (FILM / "boxes.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def iou(a, b):
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    both = max(width, 0) * max(height, 0)
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def found(truth, answer):
    """How many of the lines are found, each by a box of its own."""
    pairs = sorted(((iou(t, a), i, k) for i, t in enumerate(truth) for k, a in enumerate(answer)), reverse=True)
    lines, boxes = set(), set()
    for covered, i, k in pairs:
        if covered >= COVERED and i not in lines and k not in boxes:
            lines.add(i)
            boxes.add(k)
    return len(lines)


class Zoo:
    """The zoo's services of text, without the rest."""

    def __init__(self, binary, folder):
        text = (ZOO / "fermata.yaml").read_text()
        services = "".join(re.findall(r"^  text-jpeg.*:\n(?:    .*\n)+", text, re.MULTILINE))
        config = pathlib.Path(folder) / "fermata.yaml"
        config.write_text(f"models: {folder}/models\nlisten: {{http: 0, grpc: 0, metrics: 0}}\nservices:\n{services}")
        (pathlib.Path(folder) / "models").mkdir()
        for side in SIDES:
            (pathlib.Path(folder) / "models" / f"text-{side}").symlink_to(ZOO / "repository" / f"text-{side}")
        self.process = subprocess.Popen([binary, "serve", "--config", config], stdout=subprocess.PIPE, text=True)
        address = re.search(r"http=(\S+:\d+)", self.process.stdout.readline())[1]
        self.client = tritonclient.http.InferenceServerClient(address, network_timeout=60, connection_timeout=60)

    def boxes(self, picture, side):
        """Upright boxes of a picture that is sent at that size, in pixels of the whole one."""
        encoded = io.BytesIO()
        picture.resize((side, side), Image.Resampling.BOX).save(encoded, "JPEG", quality=90)
        tensor = tritonclient.http.InferInput("encoded", [1], "BYTES")
        tensor.set_data_from_numpy(numpy.array([encoded.getvalue()], dtype=object))
        answer = self.client.infer(f"text-jpeg-{side}", [tensor]).as_numpy("boxes")
        corners = answer.reshape(-1, 4, 2) * (SIDE / side)
        return numpy.concatenate([corners.min(1), corners.max(1)], 1)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def measure(binary, rng):
    pictures = []
    for _ in range(BOARDS):
        pictures.append(frame(rng, *board(rng), rng.uniform(0.82, 0.98), rng.uniform(-0.04, 0.04), rng.uniform(-15, 15, 2)))
    with tempfile.TemporaryDirectory() as folder:
        zoo = Zoo(binary, folder)
        try:
            for side in SIDES:
                right = lines = boxes = 0
                for picture, truth in pictures:
                    answer = zoo.boxes(picture, side)
                    right += found(truth, answer)
                    lines, boxes = lines + len(truth), boxes + len(answer)
                card = {"model": f"text-{side}", "pictures": BOARDS, "lines": lines, "boxes": boxes, "found": right,
                        "precision": round(right / max(boxes, 1), 3), "recall": round(right / lines, 3),
                        "f1": round(2 * right / (lines + boxes), 3), "iou": COVERED}
                (ZOO / "repository" / f"text-{side}" / "card.json").write_text(json.dumps(card, indent=1) + "\n")
                print(json.dumps(card))
        finally:
            zoo.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ZOO.parent / "build" / "fermata")
    options = parser.parse_args()
    draw_film(numpy.random.default_rng(41))
    measure(options.binary, numpy.random.default_rng(42))


if __name__ == "__main__":
    main()
