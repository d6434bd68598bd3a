"""A rank's process: `python -m hookline_ranks.processes.rank_process`.

Its arguments are its links in JSON, the process id of the engine's process, and the
descriptor and the level of the log. It ends when the executor says so, when its
standard input closes, and when the engine's process or the thread that has started this
one ends.
"""

import ctypes
import os
import signal
import sys
import threading

import msgspec

from hookline_processes.log_forwarding import forwarding_log
from hookline_processes.owner import wait_for_owners_end
from hookline_ranks.processes.links import RankLinks
from hookline_ranks.processes.memory_end import MemoryEnd
from hookline_ranks.processes.rank_server import RankServer

_SET_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG: also ends a process that is stopped, which can watch nothing."""


def main(links: RankLinks, owner_pid: int) -> int:
    """Serves until the end; returns the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the engine decides when to end
    for descriptor in links.descriptors:
        os.set_inheritable(descriptor, False)  # by what plugins start
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    threading.Thread(target=_end_with_owner, args=[owner_pid], daemon=True).start()
    return 0 if RankServer(MemoryEnd(links)).serve() else 1


def _end_with_owner(owner_pid: int) -> None:
    # Not by `sys.stdin`, whose lock the interpreter takes when it ends.
    wait_for_owners_end(0, owner_pid)
    os._exit(0)


if __name__ == "__main__":
    links = msgspec.json.decode(sys.argv[1], type=RankLinks)
    owner_pid, log_end, level = map(int, sys.argv[2:])
    with forwarding_log(log_end, level):
        sys.exit(main(links, owner_pid))
