"""The zoo's models, with their answers, at a pace that a benchmark gives them (`workers.executor: paced`), so that few
requests a second fill a worker, and neither the client, the protocols nor other work on the machine is what is waited for."""

import pathlib
import re

import server

ZOO = server.ROOT / "zoo" / "repository"


def add(repository, name, ms, **about):
    """Adds one of the zoo's models. `ms`: what batches take, by their size, of which the largest is the model's; `about`: what
    its profile says besides. Returns its folder."""
    here, zoo = pathlib.Path(repository) / name, ZOO / name
    here.mkdir(parents=True)
    for part in ("1", "labels.txt"):
        if (zoo / part).exists():
            (here / part).symlink_to(zoo / part)
    (here / "config.pbtxt").write_text(re.sub(r"max_batch_size: *\d+", f"max_batch_size: {max(map(int, ms))}",
                                              (zoo / "config.pbtxt").read_text()))
    server.write_profile(here, ms, **about)
    return here
