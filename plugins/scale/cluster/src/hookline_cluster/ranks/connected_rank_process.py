"""A rank on another machine: `python -m hookline_cluster.ranks.connected_rank_process`.

Its arguments are the index of the rank, the process id of its owner on that machine,
and the descriptor and the level of the log. The owner writes a `RankEnlistment` to
standard input. Once that closes, or the owner has ended, the process ends; so it does
when the connection to the executor is lost, whatever it computes.
"""

import ctypes
import logging
import os
import signal
import sys
import threading

from hookline.exceptions import HooklineError
from hookline_cluster.ranks.rank_link import ConnectedEnd
from hookline_cluster.ranks.rank_messages import RankEnlistment
from hookline_kernels.runtime.openmp import wait_patiently
from hookline_processes.log_forwarding import forwarding_log
from hookline_processes.owner import wait_for_owners_end
from hookline_ranks.processes.rank_server import RankServer

DISMISSED, FAILED, LOST, UNFIT = 0, 1, 3, 4
"""Exit status: it was ended, a step failed, it lost the executor, or it could not
begin."""
_SET_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG: also ends a process that is stopped, which can watch nothing."""
_LOG_LEVEL = "TORCH_CPP_LOG_LEVEL"
_log = logging.getLogger("hookline_cluster.ranks.connected_rank_process")


def main(owner_pid: int) -> int:
    """Serves until the end; returns the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the executor decides when to end
    os.environ.setdefault(_LOG_LEVEL, "ERROR")  # it warns of hosts without a name
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    wait_patiently()
    stdin = sys.stdin.fileno()
    if (enlisted := RankEnlistment.read(stdin)) is None:
        return DISMISSED  # the owner has gone already
    threading.Thread(
        target=_end_with_owner, args=[stdin, owner_pid], daemon=True
    ).start()
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


def _end_with_owner(stdin: int, owner_pid: int) -> None:
    wait_for_owners_end(stdin, owner_pid)
    os._exit(DISMISSED)


if __name__ == "__main__":
    _, owner_pid, log_end, level = map(int, sys.argv[1:])
    with forwarding_log(log_end, level):
        sys.exit(main(owner_pid))
