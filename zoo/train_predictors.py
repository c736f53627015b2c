#!/usr/bin/env python3
"""Profiles the ensembles on their histories and trains the networks that look at queries.

    make zoo                                    all of them
    zoo/train_predictors.py scans-averaged      one of them

`fermata difficulty fit` writes zoo/data/ENSEMBLE/; fermata_train, on a Python that has PyTorch,
writes zoo/repository/ENSEMBLE-{difficulty,agreement,gating}/, each with config.pbtxt and card.json.
"""

import dataclasses
import json
import os
import pathlib
import subprocess

from ensembles.tasks import Count, Scans
from train_ensembles import AGREED, AVERAGED, MODELS, STACKED, ZOO
from training.cards import write_card, write_plain_configuration
from training.command import parser_of
from training.fit import SEED


@dataclasses.dataclass
class Ensemble:
    task: object
    models: list
    options: list  # of `fermata difficulty fit`
    scores: list = ()  # options of `fermata_train difficulty`


def weights():
    named = json.loads((ZOO / "data" / "count" / "weights.json").read_text())
    return ",".join(str(named[model]) for model in MODELS["count"])


ENSEMBLES = {
    "scans-averaged": lambda: Ensemble(Scans, AVERAGED, ["--aggregation", "average"]),
    "scans-stacked": lambda: Ensemble(Scans, list(MODELS["scans"]), [
        "--aggregation", "stacking", "--meta", STACKED, "--meta-output", "probabilities"]),
    "count-weighted": lambda: Ensemble(Count, list(MODELS["count"]), [
        "--aggregation", "weighted-average", "--weights", weights(), "--task", "regression",
        "--within", AGREED], scores=["--lambda", 100, "--epochs", 30]),
}
NETWORKS = {"difficulty": ["difficulty"], "agreement": ["difficulty", "--target", "agreement"],
            "gating": ["gating", "--epochs", 40]}


def profile(fermata, name, ensemble):
    data = ZOO / "data" / ensemble.task.NAME
    output = "probabilities" if ensemble.task.CLASSES else "value"
    labels = ["--labels", data / "history-labels.npy"] if ensemble.task.CLASSES else []
    command = [fermata, "difficulty", "fit", data / "history-features.npy", *labels,
               "--repository", ZOO / "repository", "--models", ",".join(ensemble.models),
               "--output", output, *ensemble.options, "--name", name, "--out", ZOO / "data" / name]
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)


def train(python, name, network, ensemble):
    task, model = ensemble.task, f"{name}-{network}"
    folder, data = ZOO / "repository" / model, ZOO / "data"
    (folder / "1").mkdir(parents=True, exist_ok=True)
    command, *options = NETWORKS[network]
    options += (["--labels", data / task.NAME / "history-labels.npy"] if command == "gating"
                else ensemble.scores)
    done = subprocess.run(
        [str(part) for part in
         (python, "-m", "fermata_train", command, data / name, "--features",
          data / task.NAME / "history-features.npy", "--image", ",".join(map(str, task.SHAPE)),
          "--seed", SEED, *options,
          "--out", folder / "1" / "model.onnx")],
        check=True, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ZOO.parent / "python")})
    width = len(task.CLASSES) or 1
    outputs = ({"weights": len(ensemble.models)} if command == "gating"
               else {"task": width, "score": 1})
    about = {"difficulty": "how much the models of {} differ from what they say together",
             "agreement": "how much the models of {} differ from each other",
             "gating": "how much to trust every model of {}"}[network].format(name)
    values = task.SHAPE[1] * task.SHAPE[2]
    write_plain_configuration(folder, about, 64, values, outputs)
    write_card(folder / "card.json", {
        "name": model, "task": about, "licence": "Apache-2.0", "data": f"{task.SOURCE}, {task.LICENCE}",
        "command": f"zoo/train_predictors.py {name}", **json.loads(done.stdout)})


def main():
    parser = parser_of(__doc__, ENSEMBLES)
    parser.add_argument("--fermata", type=pathlib.Path, default=ZOO.parent / "build" / "fermata")
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has PyTorch")
    arguments = parser.parse_args()
    for name in arguments.names:
        ensemble = ENSEMBLES[name]()
        profile(arguments.fermata, name, ensemble)
        for network in NETWORKS:
            print(f"{name}-{network}", flush=True)
            train(arguments.python, name, network, ensemble)


if __name__ == "__main__":
    main()
