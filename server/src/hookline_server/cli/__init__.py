"""The `hookline` command."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from hookline_processes.import_path import leave_out_working_directory

__all__ = ["main"]

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status.

    As the command of a process, without arguments, it first makes sure that nothing is
    imported from the working directory.
    """
    left_out = leave_out_working_directory() if argv is None else []
    try:
        if argv is None and os.getpid() == 1:
            _become_init()
        from hookline_server.cli.dispatch import dispatch  # noqa: PLC0415 - not before

        return dispatch(argv, left_out=left_out)
    except KeyboardInterrupt:  # while it imports
        return INTERRUPTED


def _become_init() -> None:
    """Makes the first process of a container its init, and the command a child of it.

    That comes before imports that take time, in which a signal would be lost.
    """
    from hookline_processes.first_process import leave_first_process  # noqa: PLC0415
    from hookline_server.cli.errors import UsageError  # noqa: PLC0415
    from hookline_server.cli.secrets import revealed  # noqa: PLC0415

    with suppress(UsageError):  # which is said again by the command
        sys.argv[1:] = revealed(sys.argv[1:])
    leave_first_process()
