"""The demo zoo through Triton's clients: real models, real data, real answers."""

import json
import wave

import numpy as np
import pytest

from conftest import ZOO
from tensors import infer, tensor

DIGITS = ["digits", "digits-linear", "digits-mlp", "digits-cnn-small", "digits-cnn-medium"]


def card(service):
    model = "digits-cnn-large" if service == "digits" else service
    return json.loads((ZOO / "repository" / model / "card.json").read_text())


def packaged(model):
    if not (ZOO / "repository" / model / "1" / "model.onnx").exists():
        pytest.skip(f"{model} is not here; zoo/fetch gets it")


def requests(name):
    with (ZOO / "data" / f"{name}.jsonl").open() as file:
        for line in file:
            request = json.loads(line)
            yield {t["name"]: array(t) for t in request["inputs"]}, request.get("label")


def array(described):
    kind = {"FP32": np.float32, "INT64": np.int64}[described["datatype"]]
    return np.array(described["data"], kind).reshape(described["shape"])


@pytest.mark.parametrize("triton, service", [
    *(("http", service) for service in DIGITS), ("grpc", "digits-mlp")], indirect=["triton"])
def test_digits_score_what_their_card_says(triton, service):
    held_out = list(requests("digits-test"))
    images = np.concatenate([inputs["image"] for inputs, _ in held_out])
    labels = np.array([label for _, label in held_out])
    found = np.concatenate([infer(triton, service, {"image": batch})["label"][:, 0]
                            for batch in np.array_split(images, len(images) // 16)])
    expected = card(service)
    confusion = np.zeros((10, 10), int)
    np.add.at(confusion, (labels, found), 1)
    assert confusion.tolist() == expected["confusion"]
    assert np.mean(found == labels) == pytest.approx(expected["accuracy"], abs=1e-6)


def test_many_single_digits_get_their_own_answers_from_shared_batches(http):
    held_out = list(requests("digits-test"))[:64]
    import tritonclient.http as module
    calls = [http.async_infer("digits", [tensor(module, "image", inputs["image"])])
             for inputs, _ in held_out]
    found = [call.get_result().as_numpy("label")[0, 0] for call in calls]
    alone = [http.infer("digits", [tensor(module, "image", inputs["image"])])
             .as_numpy("label")[0, 0] for inputs, _ in held_out]
    assert found == alone


def read_text(probabilities):
    """Greedy CTC: the likeliest character of each step, repeats and blanks left out."""
    keys = (ZOO / "repository" / "ocr-recognition" / "1" / "keys.txt").read_text().split("\n")
    characters = ["", *keys[:6623], " "]
    steps = probabilities.argmax(axis=1)
    return "".join(characters[step] for before, step in zip([0, *steps], steps) if step != before)


def letters(text):
    return [character for character in text if character.isalnum()]


@pytest.mark.parametrize("triton", ["grpc"], indirect=True)
def test_recognition_reads_a_scanned_page(triton):
    packaged("ocr-recognition")
    truth = [line["text"] for line in json.loads((ZOO / "data" / "page-lines.json").read_text())]
    read = [read_text(infer(triton, "ocr-recognition", inputs)["softmax_11.tmp_0"][0])
            for inputs, _ in requests("ocr-recognition")]
    assert len(read) == len(truth)
    right = [letters(a) == letters(b) for a, b in zip(read, truth)]
    assert sum(right) >= len(truth) - 1, read


def test_detection_finds_every_line_of_the_page(triton):
    packaged("ocr-detection")
    (inputs, _), = requests("ocr-detection")
    text = infer(triton, "ocr-detection", inputs)["sigmoid_0.tmp_0"][0, 0] > 0.3
    for line in json.loads((ZOO / "data" / "page-lines.json").read_text()):
        top, bottom, left, right = line["box"]
        assert text[top:bottom, left:right].any(axis=0).mean() > 0.9
    assert not text[145:165].any()  # between the paragraph and the listing


def test_direction_tells_turned_lines(triton):
    packaged("ocr-direction")
    answers = [(infer(triton, "ocr-direction", inputs)["softmax_0.tmp_0"][0].argmax(), label)
               for inputs, label in requests("ocr-direction")]
    assert np.mean([found == label for found, label in answers]) >= 0.85, answers


@pytest.mark.parametrize("model", ["vad-silero-v5", "vad-silero-v6"])
def test_voice_is_told_from_silence(triton, model):
    packaged(model)
    heard, state = [], np.zeros((2, 1, 128), np.float32)
    for inputs, _ in requests("vad-silero-v5"):
        outputs = infer(triton, model, {**inputs, "state": state})
        heard.append(outputs["output"][0, 0])
        state = outputs["stateN"]
    assert np.mean(heard[8:90]) > 0.8  # the sentence
    assert max(heard[3:8]) < 0.2       # the breath before it
