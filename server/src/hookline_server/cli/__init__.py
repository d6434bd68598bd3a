"""The `hookline` command."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from hookline_processes.first_process import leave_first_process
from hookline_server.cli.errors import UsageError
from hookline_server.cli.secrets import revealed

__all__ = ["main"]

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status.

    The first process of a container first becomes its init, and the command a child of
    it. That comes before imports that take time, in which a signal would be lost.
    """
    if argv is None and os.getpid() == 1:
        with suppress(UsageError):  # which is said again below
            sys.argv[1:] = revealed(sys.argv[1:])
        leave_first_process()
    try:
        from hookline_server.cli.dispatch import main as run  # noqa: PLC0415

        return run(argv)
    except KeyboardInterrupt:  # while it imports
        return INTERRUPTED
