"""The network that looks at queries: small, as it runs beside the ensemble for every one."""

import torch
from torch import nn


class Features(nn.Module):
    """Of a query [n, ...], as it comes, to intermediate outputs [n, width]."""

    def __init__(self, features, image):
        super().__init__()
        self.image = image
        over = None if image else 0  # an image has one scale, else every number has its own
        deviation = torch.as_tensor(features.std(over))
        self.register_buffer("mean", torch.as_tensor(features.mean(over)))
        self.register_buffer("scale", torch.where(deviation > 1e-6, 1 / deviation, deviation * 0 + 1))
        if image:
            self.body = nn.Sequential(
                nn.Conv2d(image[0], 12, 3, stride=2, padding=1), nn.ReLU(),
                nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(),
                nn.Conv2d(24, 24, 3, stride=2, padding=1), nn.ReLU(),
                nn.Conv2d(24, 32, 3, padding=1), nn.ReLU(),
                nn.AdaptiveAvgPool2d(1) if min(image[1:]) < 8 else nn.AvgPool2d(2),
                nn.Flatten())
        else:
            self.body = nn.Sequential(
                nn.Flatten(), nn.Linear(features[0].size, 64), nn.ReLU(), nn.Linear(64, 48),
                nn.ReLU())
        with torch.no_grad():
            self.width = self.forward(torch.as_tensor(features[:1])).shape[1]

    def forward(self, queries):
        x = (queries - self.mean) * self.scale
        return self.body(x.reshape(-1, *self.image) if self.image else x)


class TwoHeaded(nn.Module):
    """Schemble, section V-C: the task head's output and the intermediate outputs, through
    a dense layer, are the score. `task` as the ensemble's output, `score` in [0, 1], [n, 1].
    """

    OUTPUTS = ("task", "score")

    def __init__(self, features, image, width, classification):
        super().__init__()
        self.classification = classification
        self.features = Features(features, image)
        self.hidden = nn.Sequential(nn.Dropout(0.3), nn.Linear(self.features.width, 64), nn.ReLU())
        self.task = nn.Linear(64, width)
        self.score = nn.Linear(64 + width, 1)

    def logits(self, queries):
        """The task's, and the score."""
        hidden = self.hidden(self.features(queries))
        task = self.task(hidden)
        answer = task.softmax(1) if self.classification else task
        return task, torch.sigmoid(self.score(torch.cat([hidden, answer], 1)))

    def forward(self, queries):
        task, score = self.logits(queries)
        return (task.softmax(1) if self.classification else task), score


class Gating(nn.Module):
    """The same network with one head: `weights` of the base models, [n, models], sum 1.

    None outweighs another more than exp(2 LIMIT) times: where one model is the best on most
    queries, the softmax would soon be saturated and learn nothing of the others.
    """

    OUTPUTS = ("weights",)
    LIMIT = 3

    def __init__(self, features, image, models):
        super().__init__()
        self.features = Features(features, image)
        self.hidden = nn.Sequential(nn.Dropout(0.3), nn.Linear(self.features.width, 64), nn.ReLU())
        self.weights = nn.Linear(64, models)

    def forward(self, queries):
        logits = self.weights(self.hidden(self.features(queries)))
        return (self.LIMIT * torch.tanh(logits / self.LIMIT)).softmax(1)
