"""The terminal that a process may have, and may lose."""

import os

_PATH = "/dev/tty"


class Terminal:
    """This process's terminal, as of its start.

    SIGHUP says that it was lost, if there was one; else it is a message of somebody.
    """

    def __init__(self) -> None:
        """Finds out whether there is one."""
        self._was_there = _is_there()

    @property
    def is_lost(self) -> bool:
        """Whether there was one that is gone."""
        return self._was_there and not _is_there()


def _is_there() -> bool:
    try:
        os.close(os.open(_PATH, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK))
    except OSError:
        return False
    return True
