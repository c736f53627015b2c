"""A network that listens: a second of sound in 16 000 samples, its spectrum in mel bands, and convolutions over time.

Takes `samples`, FP32 [batch, 16000] in [-1, 1]. All of it is in the graph, so a request carries sound as it is.
"""

import jax.numpy as jnp
import numpy as np

from training.convolutional import ResidualCnn

RATE, SAMPLES = 16000, 16000
HALVED = 2  # it listens at 8 kHz
LEAST = 1e-6  # power of a band that is told from none
SCALE = 2.0  # of the logarithms of powers, to near one


def mel_weights(taps, bands, lowest=60.0):
    """[bands, bins]: triangles of equal width on the mel scale, over a spectrum of so many taps."""
    mel = lambda hertz: 2595 * np.log10(1 + np.asarray(hertz) / 700)
    highest = RATE / HALVED / 2
    edges = np.linspace(mel(lowest), mel(highest), bands + 2)[:, None]
    at = mel(np.arange(taps // 2 + 1) * (RATE / HALVED) / taps)
    rising = (at - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - at) / (edges[2:] - edges[1:-1])
    weights = np.maximum(0, np.minimum(rising, falling))
    return (weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-9)).astype(np.float32)


class Listener:
    """`taps` of the spectrum every `hop` samples at 8 kHz, in `bands`; then a residual network over time."""

    def __init__(self, classes, taps, hop, bands, channels, blocks):
        self.classes, self.taps, self.hop, self.bands = classes, taps, hop, bands
        self.steps = (SAMPLES // HALVED - taps) // hop + 1
        self.body = ResidualCnn((bands, self.steps, 1), classes, (5, 1), (4, 1), channels, blocks)

    def init(self, rng):
        return self.body.init(rng)

    def _waves(self):
        """[2 * bins, taps]: cosines, then sines, under Hann's window."""
        n, k = np.arange(self.taps), np.arange(self.taps // 2 + 1)[:, None]
        window = np.hanning(self.taps + 1)[:-1] / np.sqrt(self.taps)
        angle = 2 * np.pi * k * n / self.taps
        return np.concatenate([np.cos(angle) * window, np.sin(angle) * window]).astype(np.float32)

    def logits(self, params, samples):
        x = samples.reshape(-1, SAMPLES // HALVED, HALVED).mean(axis=2)
        at = np.arange(self.steps)[:, None] * self.hop + np.arange(self.taps)
        waves = jnp.square(x[:, at] @ self._waves().T)
        bins = self.taps // 2 + 1
        power = (waves[..., :bins] + waves[..., bins:]) @ mel_weights(self.taps, self.bands).T
        x = jnp.log(power + LEAST)
        x = (x - x.mean(axis=(1, 2), keepdims=True)) / SCALE
        return self.body.scores(params, x.transpose(0, 2, 1)[..., None])

    def write_scores(self, graph, params):
        x = graph.reshape(graph.source, [-1, 1, SAMPLES])
        x = graph.add("AveragePool", x, kernel_shape=[HALVED], strides=[HALVED])
        x = graph.add("Conv", x, graph.constant(self._waves()[:, None]), strides=[self.hop])
        x = graph.add("Mul", x, x)
        bins = self.taps // 2 + 1
        mel = mel_weights(self.taps, self.bands)
        both = np.concatenate([mel, mel], axis=1)[:, :, None]
        assert both.shape[1] == 2 * bins
        x = graph.add("Conv", x, graph.constant(both))
        x = graph.add("Log", graph.add("Add", x, graph.constant(np.float32(LEAST))))
        x = graph.add("Sub", x, graph.add("ReduceMean", x, axes=[1, 2], keepdims=1))
        x = graph.add("Div", x, graph.constant(np.float32(SCALE)))
        x = graph.reshape(x, [-1, self.bands, self.steps, 1])
        return self.body.write_scores(graph, params, x)
