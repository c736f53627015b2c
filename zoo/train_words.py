#!/usr/bin/env python3
"""Trains what the demo's `words` listens with: two networks that hear whether somebody speaks, two that know eight words.

    make zoo

Debian's espeak-ng (scripts/deps.sh zoo) says the words; every fourth of its voices is held out, and accuracies are of
those. Writes zoo/repository/{speech,word}-{small,large}/1/model.onnx with config.pbtxt, labels.txt and card.json, and
zoo/data/words: a few of the held-out voices' words as WAV files.
"""

import json
import os
import pathlib
import wave

# One thread, so that the sums are the same however many cores there are.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import numpy as np

from training.cards import answers, scores, write_card, write_configuration
from training.fit import SEED, Member, train
from training.graph import Graph
from words import sources
from words.networks import SAMPLES, Listener
from words.tasks import Speech, Word, heard

ZOO = pathlib.Path(__file__).resolve().parent
SPEAKERS, HELD_OUT_SPEAKERS, OTHERS = 152, 50, 8
SHOWN = ("yes", "no", "stop", "left")


def listeners(classes, epochs):
    small = Listener(classes, taps=128, hop=340, bands=20, channels=16, blocks=1)
    large = Listener(classes, taps=256, hop=164, bands=40, channels=64, blocks=3)
    return {size: Member(network, epochs, epoch=5120) for size, network in (("small", small), ("large", large))}


def write_model(task, size, member, params, held_out):
    """Its bytes."""
    name, classes = f"{task.NAME}-{size}", len(task.CLASSES)
    graph = Graph(name, "samples", SAMPLES, classes)
    model = graph.model(member.network.write_scores(graph, params)).SerializeToString()
    folder = ZOO / "repository" / name
    (folder / "1").mkdir(parents=True, exist_ok=True)
    (folder / "1" / "model.onnx").write_bytes(model)
    write_configuration(folder, task.QUESTION, 16, SAMPLES, task.CLASSES, source="samples")
    views = task.views(held_out, np.random.default_rng(SEED + 2))
    found = np.concatenate([answers(model, {"samples": part}) for part in np.array_split(views, 50)])
    result = scores(found, held_out.labels, classes)
    write_card(folder / "card.json", {
        "name": name, "task": task.QUESTION, "licence": "Apache-2.0", "classes": task.CLASSES,
        "data": "said by Debian's espeak-ng 1.51, in voices that were not trained on", "command": "zoo/train_words.py",
        "seed": SEED, "test_samples": len(held_out), **result})
    print(f"{name}: accuracy {result['accuracy']:.4f}, {len(model) / 1024:.0f} KiB", flush=True)
    return model


def write_wav(path, samples):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sources.RATE)
        file.writeframes(np.clip(samples * 32767, -32768, 32767).astype(np.int16).tobytes())


def write_data(spoken, models, rng):
    """Words that all variants know, a second each, and noise alone; words.json says what is in which file."""
    folder = ZOO / "data" / "words"
    folder.mkdir(exist_ok=True)
    known = {}
    for word in SHOWN:
        for sound in (sound for name, sound in spoken if name == word):
            window = heard(sound, False, rng)
            expected = Word.CLASSES.index(word)
            if all(answers(model, {"samples": window[None]}) == expected for model in models):
                break
        write_wav(folder / f"{word}.wav", window)
        known[f"{word}.wav"] = [word]
    write_wav(folder / "no-speech.wav", 0.1 * sources.noise(rng, 2 * SAMPLES))
    known["no-speech.wav"] = []
    (folder / "words.json").write_text(json.dumps(known, indent=1) + "\n")


def main():
    rng = np.random.default_rng(SEED)
    fitting_voices, other_voices = sources.voices()
    fitting = sources.spoken(fitting_voices, SPEAKERS, OTHERS, rng)
    held_out = sources.spoken(other_voices, HELD_OUT_SPEAKERS, OTHERS, rng)
    print(f"{len(fitting)} words to train on, {len(held_out)} held out", flush=True)
    for task, epochs in ((Speech(), 6), (Word(), 30)):
        fit, test = task.split(fitting, rng), task.split(held_out, rng)
        models = [write_model(task, size, member, train(task, member, fit), test)
                  for size, member in listeners(len(task.CLASSES), epochs).items()]
    write_data(held_out, models, np.random.default_rng(SEED + 3))


if __name__ == "__main__":
    main()
