"""The first process of a container, which the kernel treats unlike all others.

Signals without a handler do not reach it, so that SIGTERM would not end a program that
still starts. It also inherits the processes whose parents have ended, and has to take
note of their ends, lest they stay as zombies for ever. Both are the work of an init.
"""

import os
import signal
from contextlib import suppress

_FROM_KERNEL = 0x80
"""`si_code` of what a terminal sends, to the child as well."""


def leave_first_process() -> None:
    """Goes on in a child if this is process 1, which then is only its init.

    Returns at once in any other process. The init passes signals on, and ends with the
    child and its status. To be called before there are threads.
    """
    if os.getpid() != 1:
        return
    everything = signal.valid_signals()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, everything)
    if (child := os.fork()) == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    os._exit(_watch_over(child))


def _watch_over(child: int) -> int:
    """Serves as the init of one child; returns its exit status."""
    while True:
        taken = signal.sigwaitinfo(signal.valid_signals())
        if taken.si_signo == signal.SIGCHLD:
            if (status := _take_ends(child)) is not None:
                return status
        elif taken.si_code != _FROM_KERNEL:
            with suppress(ProcessLookupError):
                os.kill(child, taken.si_signo)


def _take_ends(child: int) -> int | None:
    """Takes note of all processes that have ended; the child's status if it has."""
    status = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                code = os.waitstatus_to_exitcode(ended[1])
                status = code if code >= 0 else 128 - code
    return status
