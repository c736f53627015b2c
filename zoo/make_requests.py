#!/usr/bin/env python3
"""Writes real inputs for packaged models and an ensemble, one request a line, as `fermata load` reads.

From the scanned page zoo/data/page.pgm: the page for text detection, its lines for
recognition (each as wide as its text) and upright or turned for direction. From
zoo/data/speech.wav: one frame after the other for Silero VAD. From zoo/data/scans: the badly
scanned digits that its ensembles are asked. Needs only Python.
"""

import array
import ast
import json
import pathlib
import wave

DATA = pathlib.Path(__file__).resolve().parent / "data"
LINE_HEIGHT = 48  # of PP-OCR's recognition and direction
MARGIN = 3        # pixels around a line's box
CONTEXT, FRAME = 64, 512  # samples of Silero VAD at 16 kHz
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # PP-OCR's detection


def read_page():
    """Rows of grey values in [0, 1]."""
    content = (DATA / "page.pgm").read_bytes()
    magic, width, height, top = content.split(maxsplit=4)[:4]
    assert magic == b"P5" and top == b"255"
    width, height = int(width), int(height)
    pixels = content[-width * height:]
    return [[p / 255 for p in pixels[y * width:(y + 1) * width]] for y in range(height)]


def resized(rows, height, width):
    """Bilinear, pixel centres at halves."""
    def weights(size, target):
        for i in range(target):
            at = min(max((i + 0.5) * size / target - 0.5, 0), size - 1)
            yield int(at), min(int(at) + 1, size - 1), at - int(at)

    columns = list(weights(len(rows[0]), width))
    wide = [[r[a] * (1 - t) + r[b] * t for a, b, t in columns] for r in rows]
    return [[p * (1 - t) + q * t for p, q in zip(wide[a], wide[b])]
            for a, b, t in weights(len(rows), height)]


def image(rows, mean, deviation):
    """The tensor `x` of PP-OCR: three equal channels, normalised."""
    data = [round((p - m) / d, 4) for m, d in zip(mean, deviation) for r in rows for p in r]
    return tensor("x", [1, 3, len(rows), len(rows[0])], data)


def tensor(name, shape, data, datatype="FP32"):
    return {"name": name, "shape": shape, "datatype": datatype, "data": data}


def padded(rows):
    """To multiples of 32 each way, with the page's mean."""
    mean = sum(map(sum, rows)) / (len(rows) * len(rows[0]))
    height, width = (-(-n // 32) * 32 for n in (len(rows), len(rows[0])))
    wide = [r + [mean] * (width - len(r)) for r in rows]
    return wide + [[mean] * width for _ in range(height - len(rows))]


def lines(page):
    for line in json.loads((DATA / "page-lines.json").read_text()):
        top, bottom, left, right = line["box"]
        yield [row[max(0, left - MARGIN):right + MARGIN]
               for row in page[max(0, top - MARGIN):bottom + MARGIN]]


def half_range(rows):
    return image(rows, (0.5,) * 3, (0.5,) * 3)


def frames():
    with wave.open(str(DATA / "speech.wav")) as file:
        assert file.getframerate() == 16000 and file.getnchannels() == 1
        samples = array.array("h", file.readframes(file.getnframes()))
    for start in range(CONTEXT, len(samples) - FRAME, FRAME):
        window = [round(s / 32768, 5) for s in samples[start - CONTEXT:start + FRAME]]
        yield [tensor("input", [1, CONTEXT + FRAME], window),
               tensor("state", [2, 1, 128], [0] * 256),
               tensor("sr", [], [16000], "INT64")]


def numpy_rows(file, kind):
    """Of a NumPy array of two dimensions or, one value each, of one."""
    raw = (DATA / file).read_bytes()
    start = 10 + int.from_bytes(raw[8:10], "little")
    values = array.array(kind, raw[start:])
    shape = ast.literal_eval(raw[10:start].decode())["shape"]
    width = len(values) // shape[0]
    return [values[i:i + width] for i in range(0, len(values), width)]


def scans():
    for row, label in zip(numpy_rows("scans/test-features.npy", "f"), numpy_rows("scans/test-labels.npy", "q")):
        yield {"inputs": [tensor("features", [1, len(row)], [int(v) for v in row])],
               "label": label[0]}


def write(name, requests):
    path = DATA / f"{name}.jsonl"
    if not path.exists():
        part = path.with_suffix(".part")
        part.write_text("".join(json.dumps(r, separators=(",", ":")) + "\n" for r in requests))
        part.rename(path)


def main():
    page = read_page()
    write("ocr-detection", [{"inputs": [image(padded(page), MEAN, DEVIATION)]}])
    write("ocr-recognition", (
        {"inputs": [half_range(resized(r, LINE_HEIGHT, round(len(r[0]) * LINE_HEIGHT / len(r))))]}
        for r in lines(page)))
    write("ocr-direction", (
        {"inputs": [half_range(resized(turned, LINE_HEIGHT, 192))], "label": label}
        for r in lines(page)
        for label, turned in enumerate((r, [row[::-1] for row in r[::-1]]))))
    write("vad-silero-v5", ({"inputs": inputs} for inputs in frames()))
    write("scans-test", scans())


if __name__ == "__main__":
    main()
