"""Words as Debian's espeak-ng says them in many voices, and noises; all of it in numbers in [-1, 1] at 16 kHz."""

import concurrent.futures
import io
import subprocess
import wave

import numpy as np

RATE = 16000
WORDS = ["yes", "no", "up", "down", "left", "right", "stop", "go"]
OTHERS = """apple back backward bed bird bottle car cat chair coffee cold dinner dog door eight evening family five flower
follow forward four game garden happy hello house hundred kitchen lamp learn letter lift light low marvin minute money
morning music never night nine nothing one open paper people phone picture please radio river road school seven sheila
six sleep snow street summer sun table thank three time today train tree two under visual wait water white window winter
wow yellow zero""".split()
ACCENTS = ["en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp", "en-gb-x-gbclan", "en-gb-x-gbcwmd", "en-029", "en-us-nyc"]
HELD_OUT = 4  # every so many-th voice is not trained on


def voices():
    """Names of espeak-ng's variants of a voice, in order: those to train on, and those held out."""
    listed = subprocess.run(["espeak-ng", "--voices=variant"], capture_output=True, text=True, check=True).stdout
    names = sorted({row[48:].split("!v/")[1].split("  ")[0].strip() for row in listed.splitlines()[1:] if "!v/" in row})
    return ([n for i, n in enumerate(names) if i % HELD_OUT != 1], [n for i, n in enumerate(names) if i % HELD_OUT == 1])


def at_rate(samples, rate):
    """At 16 kHz, from a higher rate: what lies above half of it is left out."""
    count = len(samples) * RATE // rate
    spectrum = np.fft.rfft(samples)[:count // 2 + 1]
    return (np.fft.irfft(spectrum, count) * count / len(samples)).astype(np.float32)


def said(word, voice, speed, pitch):
    """A word without the silence around it."""
    sound = subprocess.run(["espeak-ng", "--stdout", "-v", voice, "-s", str(speed), "-p", str(pitch), word],
                           capture_output=True, check=True).stdout
    with wave.open(io.BytesIO(sound)) as file:
        rate = file.getframerate()
        samples = np.frombuffer(sound[44:], np.int16).astype(np.float32) / 32768
    samples = at_rate(samples, rate)
    loud = np.flatnonzero(np.abs(samples) > 0.02 * np.abs(samples).max())
    return samples[loud[0]:loud[-1] + 1] if len(loud) else samples[:0]


def spoken(names, speakers, others, rng):
    """(word, sound) of so many speakers: voice, accent, speed and pitch; each says all words, and some others."""
    jobs = []
    for i in range(speakers):
        voice = f"{rng.choice(ACCENTS)}+{names[i % len(names)]}"
        how = (voice, int(rng.integers(110, 215)), int(rng.integers(15, 85)))
        jobs += [(word, *how) for word in [*WORDS, *rng.choice(OTHERS, others, replace=False)]]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        sounds = list(pool.map(lambda job: said(*job), jobs))
    # Some variants of some accents say nothing, or whisper beyond hearing.
    return [(job[0], sound) for job, sound in zip(jobs, sounds) if 0.08 * RATE < len(sound) < 1.2 * RATE]


def noise(rng, samples):
    """Something that is no speech: hiss of any colour, hum, an engine, tones, clicks, or nearly nothing."""
    kind = rng.integers(0, 6)
    time = np.arange(samples) / RATE
    if kind <= 1:
        spectrum = np.fft.rfft(rng.standard_normal(samples))
        x = np.fft.irfft(spectrum / np.maximum(1, np.arange(len(spectrum))) ** rng.uniform(0, 1), samples)
    elif kind == 2:
        base = rng.uniform(40, 130)
        x = sum(rng.uniform(0, 1) / k * np.sin(2 * np.pi * (k * base * time + rng.uniform())) for k in range(1, 12))
    elif kind == 3:
        beats = np.sin(2 * np.pi * rng.uniform(2, 30) * time + rng.uniform(0, 6)) + 1.2
        x = np.convolve(rng.standard_normal(samples), np.ones(int(rng.integers(2, 40))), "same") * beats
    elif kind == 4:
        x = np.zeros(samples)
        for _ in range(int(rng.integers(1, 5))):
            start, end = np.sort(rng.integers(0, samples, 2))
            x[start:end] += np.sin(2 * np.pi * rng.uniform(150, 3500) * time[start:end])
    else:
        x = np.zeros(samples)
        for at in rng.integers(0, samples - 200, int(rng.integers(1, 12))):
            x[at:at + 200] += rng.standard_normal(200) * np.exp(-np.arange(200) / rng.uniform(5, 60))
    return (x / max(1e-9, np.sqrt(np.mean(np.square(x))))).astype(np.float32)
