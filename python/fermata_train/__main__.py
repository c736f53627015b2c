"""python -m fermata_train difficulty|gating|forecast: see `python -m fermata_train --help`."""

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

FORECAST_EPILOG = """
Seconds without a request count as missing and are left out. Progress goes to standard error, a summary
as JSON to standard output; `smape_percent` is the error on the part of the trace that was not trained on. The same
trace and seed give the same network. `fermata forecast TRACE --model FILE.onnx` runs it.
"""


def share(text):
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not between 0 and 1")
    return value


def shape(text):
    sizes = tuple(int(size) for size in text.split(","))
    if len(sizes) != 3 or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not CHANNELS,HEIGHT,WIDTH")
    return sizes


def scales(text):
    parts = [int(part) for part in text.split(",") if part]
    if any(part < 2 for part in parts):
        raise argparse.ArgumentTypeError(f"'{text}' has a number of parts below 2")
    return parts


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
    forecast = commands.add_parser(
        "forecast", epilog=FORECAST_EPILOG, formatter_class=keep,
        help="the load of the next 20 seconds from that of the last 120")
    forecast.add_argument("trace", type=pathlib.Path, metavar="TRACE",
                          help="requests in each second, one a line")
    forecast.add_argument("--out", type=pathlib.Path, required=True, metavar="FILE.onnx")
    forecast.add_argument("--inputs", choices=("summary", "maxima"), default="summary",
                          help="what a step of 10 seconds is: its highest second, or also its mean and "
                               "deviation (default: %(default)s)")
    forecast.add_argument("--share", type=share, default=2 / 3, metavar="X",
                          help="of the trace to train on, the rest is tried (default: 2/3)")
    forecast.add_argument("--scales", type=scales, default="2,4,8,16,32", metavar="N,N",
                          help="train on so many parts of the load too, so that the network serves smaller "
                               "loads; empty: only as it is (default: %(default)s)")
    forecast.add_argument("--epochs", type=positive(int), default=6, metavar="N",
                          help="default: %(default)s")
    forecast.add_argument("--seed", type=int, default=7, metavar="N")
    return parser.parse_args(argv)


def say(text):
    print(text, file=sys.stderr, flush=True)


def train_forecast(options):
    try:
        from fermata_train import forecast
    except ModuleNotFoundError as error:
        raise without_torch(error) from error
    return forecast.forecast(forecast.read_trace(options.trace), options, say)


def without_torch(error):
    return BadInput(f"PyTorch is missing ({error}); scripts/deps.sh predictors installs it "
                    "for /usr/bin/python3")


def main(argv=None):
    options = arguments(argv)
    try:
        if options.command == "forecast":
            print(json.dumps(train_forecast(options), indent=2))
            return 0
        target = getattr(options, "target", None)
        history = read_history(options.history, options.features, target,
                               getattr(options, "labels", None), options.image, options.network)
        try:
            from fermata_train import commands  # only now: bad input needs no PyTorch
        except ModuleNotFoundError as error:
            raise without_torch(error) from error
        summary = getattr(commands, options.command)(history, options)
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(summary, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
