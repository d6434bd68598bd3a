"""A rank's process: `python -m hookline_ranks.processes.rank_process`.

Its argument are its links in JSON. It ends when the executor says so, with the engine's
process, and when the thread that has started it ends.
"""

import os
import sys
from collections.abc import Sequence

import msgspec

from hookline_processes.owner import Owner, die_with_starter, run_supervised
from hookline_ranks.processes.links import RankLinks
from hookline_ranks.processes.memory_end import MemoryEnd
from hookline_ranks.processes.rank_server import RankServer


def main(owner: Owner, arguments: Sequence[str]) -> int:
    """Serves until the end; returns the exit code."""
    links = msgspec.json.decode(arguments[0], type=RankLinks)
    for descriptor in links.descriptors:
        os.set_inheritable(descriptor, False)  # by what plugins start
    die_with_starter()
    owner.watch()
    return 0 if RankServer(MemoryEnd(links)).serve() else 1


if __name__ == "__main__":
    sys.exit(run_supervised(main))
