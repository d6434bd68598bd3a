"""A front end as the observer process knows it."""

import os
import select
from contextlib import suppress


class ObservedClient:
    """One front end and its process.

    Attributes:
        index: Its number.
        pid: Its process.
    """

    def __init__(self, index: int, pid: int) -> None:
        self.index = index
        self.pid = pid
        self._is_gone = False
        self._descriptor: int | None = None
        try:
            # Unlike its number, it cannot mean another process later.
            self._descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            self._is_gone = True
        except OSError:  # a system without such descriptors
            pass

    @property
    def has_ended(self) -> bool:
        """Whether its process has ended."""
        if self._is_gone or self._descriptor is None:
            return self._is_gone
        poller = select.poll()
        poller.register(self._descriptor, select.POLLIN)
        return bool(poller.poll(0))

    def close(self) -> None:
        """Releases the process."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None
