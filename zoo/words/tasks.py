"""What the listeners are asked about a second of sound: whether it holds speech, and which word."""

import dataclasses

import numpy as np

from words import sources
from words.networks import SAMPLES



@dataclasses.dataclass
class Split:
    recordings: list  # (what is to be done with it, sound)
    labels: np.ndarray

    def __len__(self):
        return len(self.labels)

    def take(self, rows):
        return Split([self.recordings[i] for i in rows], self.labels[rows])


def _window(sound, cut, rng):
    """The sound somewhere in a window, or a second of it; `cut`: only a part of at most half of it, at an edge."""
    window = np.zeros(SAMPLES, np.float32)
    if cut:
        kept = int(rng.uniform(0.1, 0.5) * len(sound))
        if rng.integers(0, 2):
            window[:kept] = sound[len(sound) - kept:]
        else:
            window[SAMPLES - kept:] = sound[:kept]
        return window
    if len(sound) > SAMPLES:
        at = int(rng.integers(0, len(sound) - SAMPLES + 1))
        return sound[at:at + SAMPLES].copy()
    at = int(rng.integers(0, SAMPLES - len(sound) + 1))
    window[at:at + len(sound)] = sound
    return window


def heard(sound, cut, rng):
    """As a microphone in a room hears it: some echo, some noise, any loudness."""
    window = _window(sound, cut, rng)
    if len(sound) and rng.random() < 0.4:
        length = int(rng.uniform(0.03, 0.25) * sources.RATE)
        echo = rng.standard_normal(length) * np.exp(-6 * np.arange(length) / length)
        spectrum = np.fft.rfft(window, 2 * SAMPLES) * np.fft.rfft(echo, 2 * SAMPLES)
        tail = np.fft.irfft(spectrum)[:SAMPLES]
        window += tail * rng.uniform(0.05, 0.4) * np.abs(window).max() / max(1e-9, np.abs(tail).max())
    power = np.sqrt(np.mean(np.square(sound))) if len(sound) else 0.1
    decibels = rng.uniform(5, 40)
    window += sources.noise(rng, SAMPLES) * power * 10 ** (-decibels / 20)
    window *= 10 ** rng.uniform(-1.5, 0) / max(1e-9, np.abs(window).max())
    return window.astype(np.float32)


class Listening:
    """Views of recordings as windows of a second."""

    def views(self, split, rng, fresh=False):
        return np.stack([heard(sound, how == "cut", rng) for how, sound in split.recordings])


class Speech(Listening):
    NAME, CLASSES = "speech", ["none", "speech"]
    QUESTION = "a second of sound, 16 000 samples, to whether somebody speaks in it"

    @staticmethod
    def _phrase(spoken, rng):
        parts = [np.zeros(0, np.float32)]
        while sum(map(len, parts)) < 1.5 * SAMPLES:
            parts += [spoken[rng.integers(0, len(spoken))][1], np.zeros(rng.integers(0, sources.RATE // 8), np.float32)]
        return np.concatenate(parts)

    def split(self, spoken, rng):
        """As many seconds of noise as of single words and of speech without a pause."""
        recordings = [("whole", sound if rng.random() < 0.5 else self._phrase(spoken, rng)) for _, sound in spoken]
        recordings += [("whole", np.zeros(0, np.float32)) for _ in spoken]
        labels = np.repeat([1, 0], len(spoken))
        order = rng.permutation(len(labels))
        return Split([recordings[i] for i in order], labels[order])


class Word(Listening):
    NAME, CLASSES = "word", ["unknown", *sources.WORDS]
    QUESTION = "a second of sound, 16 000 samples, to one of eight words that somebody says in it"

    def split(self, spoken, rng):
        """Unknown are other words, words that are cut off, and noise."""
        recordings, labels = [], []
        for word, sound in spoken:
            if word in sources.WORDS:
                recordings.append(("whole", sound))
                labels.append(self.CLASSES.index(word))
                if rng.random() < 0.12:
                    recordings.append(("cut", sound))
                    labels.append(0)
                continue
            recordings.append(("whole", sound))
            labels.append(0)
            if rng.random() < 0.1:
                recordings.append(("whole", np.zeros(0, np.float32)))
                labels.append(0)
        order = rng.permutation(len(labels))
        return Split([recordings[i] for i in order], np.array(labels)[order])
