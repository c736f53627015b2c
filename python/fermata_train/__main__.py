"""python -m fermata_train difficulty|gating: see `python -m fermata_train --help`."""

import argparse
import json
import pathlib
import sys

from fermata_train.history import BadInput, read_history

EPILOG = """
FOLDER is what `fermata difficulty fit` writes: profile.json, scores.npy, agreement.npy,
ensemble.npy and outputs-MODEL.npy. Progress goes to standard error, a summary as JSON to
standard output. The same files and seed give the same network.
"""


def shape(text):
    sizes = tuple(int(size) for size in text.split(","))
    if len(sizes) != 3 or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not CHANNELS,HEIGHT,WIDTH")
    return sizes


def positive(kind):
    def parse(text):
        value = kind(text)
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError(f"'{text}' is not above 0")
        return value
    parse.__name__ = kind.__name__
    return parse


def arguments(argv):
    parser = argparse.ArgumentParser(prog="python -m fermata_train", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("history", type=pathlib.Path, metavar="FOLDER")
    common.add_argument("--features", type=pathlib.Path, required=True, metavar="FILE.npy",
                        help="the queries of the history as the base models take them, [n, ...]")
    common.add_argument("--out", type=pathlib.Path, required=True, metavar="FILE.onnx")
    common.add_argument("--image", type=shape, metavar="C,H,W",
                        help="how a flat query is seen by a convolutional network")
    common.add_argument("--network", choices=("convolutional", "dense"),
                        help="default: convolutional for images, else dense")
    common.add_argument("--input", default="features", metavar="NAME",
                        help="what the network calls its input (default: %(default)s)")
    common.add_argument("--epochs", type=positive(int), default=120, metavar="N",
                        help="default: %(default)s")
    common.add_argument("--seed", type=int, default=7, metavar="N")
    keep = argparse.RawDescriptionHelpFormatter
    difficulty = commands.add_parser(
        "difficulty", parents=[common], epilog=EPILOG, formatter_class=keep,
        help="a network with two heads: the ensemble's answer and the query's difficulty")
    difficulty.add_argument("--target", choices=("scores", "agreement"), default="scores",
                            help="which difficulty (default: %(default)s)")
    difficulty.add_argument("--lambda", dest="weight", type=positive(float), default=0.2,
                            metavar="X", help="weight of the score's error (default: %(default)s)")
    gating = commands.add_parser(
        "gating", parents=[common], epilog=EPILOG, formatter_class=keep,
        help="the same network with a weight for every base model")
    gating.add_argument("--labels", type=pathlib.Path, metavar="FILE.npy",
                        help="what the weighted average should be (default: the ensemble's output)")
    return parser.parse_args(argv)


def main(argv=None):
    options = arguments(argv)
    try:
        target = getattr(options, "target", None)
        history = read_history(options.history, options.features, target,
                               getattr(options, "labels", None), options.image, options.network)
        try:
            from fermata_train import commands  # only now: bad input needs no PyTorch
        except ModuleNotFoundError as error:
            raise BadInput(f"PyTorch is missing ({error}); scripts/deps.sh predictors installs it "
                           "for /usr/bin/python3") from error
        summary = getattr(commands, options.command)(history, options)
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(summary, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
