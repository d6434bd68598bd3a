"""A rank on another machine: `python -m hookline_cluster.ranks.connected_rank_process`.

Its argument is the index of the rank. Its owner on that machine sends a
`RankEnlistment` first. It ends with its owner, and when the connection to the executor
is lost, whatever it computes.
"""

import logging
import os
import sys
from collections.abc import Sequence

from hookline.exceptions import HooklineError
from hookline_cluster.ranks.rank_link import ConnectedEnd
from hookline_cluster.ranks.rank_messages import RankEnlistment
from hookline_kernels.runtime.openmp import wait_patiently
from hookline_processes.owner import Owner, die_with_starter, run_supervised
from hookline_ranks.processes.rank_server import RankServer

DISMISSED, FAILED, LOST, UNFIT = 0, 1, 3, 4
"""Exit status: it was ended, a step failed, it lost the executor, or it could not
begin."""
_LOG_LEVEL = "TORCH_CPP_LOG_LEVEL"
_log = logging.getLogger("hookline_cluster.ranks.connected_rank_process")


def main(owner: Owner, _: Sequence[str]) -> int:
    """Serves until the end; returns the exit code."""
    os.environ.setdefault(_LOG_LEVEL, "ERROR")  # it warns of hosts without a name
    die_with_starter()
    wait_patiently()
    if (enlisted := RankEnlistment.receive(owner)) is None:
        return DISMISSED  # the owner has gone already
    owner.watch()
    try:
        end = ConnectedEnd(enlisted, _end_without_executor)
    except (HooklineError, OSError) as error:
        _log.error("rank %d cannot begin: %s", enlisted.rank, error)
        return UNFIT
    try:
        return DISMISSED if RankServer(end).serve() else FAILED
    finally:
        end.close()


def _end_without_executor() -> None:
    # At once, in the middle of a step: nobody wants its result.
    os._exit(LOST)


if __name__ == "__main__":
    sys.exit(run_supervised(main))
