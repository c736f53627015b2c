"""The command line of a script that trains models by their names."""

import argparse


def parser_of(doc, known):
    """Its `names` are those given, each one of the known, or all of them."""
    def name(text):
        if text not in known:
            raise argparse.ArgumentTypeError(f"unknown '{text}'; there are {', '.join(known)}")
        return text

    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", type=name, default=list(known),
                        help=", ".join(known))
    return parser
