"""Keeps sums in a file that outlives its process."""

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

KEEP_SECONDS = 0.5
"""Minimum time between two writings, unless a page asks for one."""
_log = logging.getLogger(__name__)


class Kept(Protocol):
    """Sums that outlive their process: a `Recorder`, or what has one."""

    def kept(self) -> bytes:
        """Returns what those of another process need to go on."""
        ...

    def go_on(self, kept: bytes) -> None:
        """Goes on with what others have kept; raises `msgspec.MsgspecError`."""
        ...


class Keeper:
    """Writes what is kept of sums, and begins with what another one has written.

    Thread-safe. A process may end at any moment: the file is replaced as a whole.
    """

    def __init__(
        self,
        path: Path,
        sums: Kept,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Lets the sums go on with what the file has, if there is one."""
        self._path = path
        self._sums = sums
        self._clock = clock
        self._lock = threading.Lock()
        self._kept_at = clock()
        self._is_broken = False
        try:
            sums.go_on(path.read_bytes())
        except FileNotFoundError:
            pass  # this is the first process
        except (OSError, msgspec.MsgspecError) as error:
            _log.warning(
                "counters begin at 0, because %s is of no use: %s", path, error
            )

    def keep(self) -> None:
        """Writes now, so that no counter can fall below what is shown after that."""
        with self._lock:
            self._kept_at = self._clock()
            written = self._path.with_name(f"{self._path.name}.new")
            try:
                written.write_bytes(self._sums.kept())
                os.replace(written, self._path)  # noqa: PTH105 - of one file system
            except (OSError, ValueError) as error:  # a full disk, half a character
                if not self._is_broken:
                    _log.warning("counters are not kept: %s", error)
                self._is_broken = True
            else:
                self._is_broken = False

    def keep_now_and_then(self) -> None:
        """Writes if the last time was a while ago."""
        if self._clock() - self._kept_at >= KEEP_SECONDS:
            self.keep()
