"""Words in sound: the demo's pipeline of operators and listeners, by its own files."""

import io
import json
import struct
import wave

import numpy
import pytest
import requests
import tritonclient.http

from conftest import ZOO, link_models, serve_part

WORDS = ZOO / "data" / "words"
KNOWN = json.loads((WORDS / "words.json").read_text())
MODELS = ("speech-small", "speech-large", "word-small", "word-large")


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    text = (ZOO / "fermata.yaml").read_text()
    services = text[text.index("  words:\n"):].split("\n\n")[0]
    services = services.replace("repository/word", f"{ZOO}/repository/word").replace("slo_ms: 1000", "slo_ms: 60000")
    server = serve_part(folder, link_models(folder / "repository", MODELS), services)
    yield server
    assert server.stop() == 0, server.log.read_text()


def ask(server, service, tensor):
    client = tritonclient.http.InferenceServerClient(server.http, network_timeout=600, connection_timeout=600)
    return client.infer(service, [tensor], parameters={"explain": True})


def listen(server, sound):
    tensor = tritonclient.http.InferInput("encoded", [1], "BYTES")
    tensor.set_data_from_numpy(numpy.array([sound], dtype=object))
    return ask(server, "words", tensor)


def heard(answer):
    """Without what the listener does not know, and what it hears in two windows once."""
    found = [word.decode() for word in answer.as_numpy("word").reshape(-1) if word != b"unknown"]
    return [word for before, word in zip([None, *found], found) if word != before]


def samples(sound):
    with wave.open(io.BytesIO(sound)) as file:
        return numpy.frombuffer(file.readframes(file.getnframes()), numpy.int16).astype(numpy.float32) / 32768


def wav(values, rate=16000, says=None):
    data = numpy.asarray(values, "<i2").tobytes()
    head = b"RIFF\0\0\0\0WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, rate, 2 * rate, 2, 16)
    return head + b"data" + struct.pack("<I", len(data) if says is None else says) + data


def refused(server, sound):
    reply = requests.post(f"http://{server.http}/v2/models/words/infer", data=sound,
                          headers={"Inference-Header-Content-Length": "0"}, timeout=60)
    return reply.status_code, reply.json()["error"]


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_words_come_out_and_no_speech_is_an_answer(words, name):
    assert heard(listen(words, (WORDS / name).read_bytes())) == KNOWN[name]


def test_samples_go_in_too(words):
    values = samples((WORDS / "yes.wav").read_bytes())
    tensor = tritonclient.http.InferInput("samples", [len(values)], "FP32")
    tensor.set_data_from_numpy(values)
    answer = ask(words, "words-in-samples", tensor)
    assert heard(answer) == ["yes"]
    stages = answer.get_response()["parameters"]["stages"]
    stages = {s["stage"]: s for s in (json.loads(stages) if isinstance(stages, str) else stages)}
    assert stages["seconds"]["made"] == stages["speech"]["items"]
    assert stages["spoken"]["made"] == stages["word"]["items"] == len(answer.as_numpy("start"))


def test_a_long_sound_says_where_each_word_is(words):
    quiet = numpy.zeros(16000, numpy.int16)
    one, other = (samples((WORDS / f"{word}.wav").read_bytes()) * 32767 for word in ("stop", "left"))
    answer = listen(words, wav(numpy.concatenate([quiet, one, quiet, quiet, other]).astype(numpy.int16)))
    found = list(zip(answer.as_numpy("word").reshape(-1), answer.as_numpy("start").reshape(-1)))
    assert (b"stop", 16000) in found and (b"left", 64000) in found  # windows between have parts of words
    assert all(16000 - 8000 <= start <= 24000 or 64000 - 8000 <= start for _, start in found)


def test_an_empty_sound_is_an_answer(words):
    assert heard(listen(words, wav([]))) == []


def test_hostile_sounds_are_the_clients_fault(words):
    whole = (WORDS / "yes.wav").read_bytes()
    for sound, said in [(whole[:20000], "cut off"), (whole[:40], "no samples"), (b"no sound", "WAV file"),
                        (wav([1], says=2_000_000_000), "cut off"),
                        (wav(numpy.zeros(100_000), rate=1000), "lasts 100.0 s"),
                        (wav([1], rate=4_000_000_000 // 2), "samples a second")]:
        code, text = refused(words, sound)
        assert code == 400 and "stage 'decode'" in text and said in text, text
    assert heard(listen(words, whole)) == ["yes"]
