"""Fits a network to a history by its seed, keeps its best epoch and writes it as ONNX."""

import copy
import math
import sys
import time
import warnings

import numpy as np
import torch

from fermata_train.history import BadInput

BATCH = 64
HELD_OUT = 0.15  # of the queries: the epoch that is best on them is kept
PROGRESS_S = 1


def seeded(seed):
    """One thread and its own seed, so that the same input gives the same network."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)


class Data:
    """Arrays of n rows each, as tensors; every seventh row or so is held out."""

    def __init__(self, *arrays):
        rows = np.arange(len(arrays[0]))
        held = np.floor(rows * HELD_OUT) != np.floor((rows + 1) * HELD_OUT)
        tensors = [torch.as_tensor(np.ascontiguousarray(array, np.float32)) for array in arrays]
        self.fitting = [tensor[torch.as_tensor(~held)] for tensor in tensors]
        self.held_out = [tensor[torch.as_tensor(held)] for tensor in tensors]


def fit(network, data, loss, held_out_loss, options, rate):
    """Adam with a cosine step size. Leaves the network as it was after the best epoch."""
    n, best, kept, best_epoch = len(data.fitting[0]), math.inf, None, 0
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=1e-2)
    steps = math.ceil(n / BATCH) * options.epochs
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    said = time.monotonic()
    for epoch in range(options.epochs):
        network.train()
        for rows in torch.randperm(n).split(BATCH):
            optimizer.zero_grad()
            loss(*(tensor[rows] for tensor in data.fitting)).backward()
            optimizer.step()
            schedule.step()
        network.eval()
        with torch.no_grad():
            error = float(held_out_loss(*data.held_out))
        if error < best:
            best, best_epoch, kept = error, epoch + 1, copy.deepcopy(network.state_dict())
        if time.monotonic() - said > PROGRESS_S or epoch + 1 == options.epochs:
            said = time.monotonic()
            print(f"epoch {epoch + 1} of {options.epochs}, error on held-out queries {error:.5f}",
                  file=sys.stderr, flush=True)
    if kept is None:
        raise BadInput("training diverged: the error on the held-out queries is not a number")
    network.load_state_dict(kept)
    return {"queries": n + len(data.held_out[0]), "seed": options.seed, "epochs": options.epochs,
            "best_epoch": best_epoch}


def export(network, features, options):
    """To `options.out`; batches of any size."""
    network.eval()
    names = [options.input, *network.OUTPUTS]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(network, torch.as_tensor(features[:2]), str(options.out),
                          input_names=names[:1], output_names=names[1:], opset_version=13,
                          dynamic_axes={name: {0: "batch"} for name in names})
