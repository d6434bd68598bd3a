"""Saves the rings of one server, and watches whether an engine hangs."""

import logging
import threading
import time
from pathlib import Path
from typing import NamedTuple

from hookline_recording.folder import is_live, retire, rings_of, save_in_folder
from hookline_recording.front_end import FrontEndRing
from hookline_recording.reading import read_state, stalled_seconds

LEAST_SECONDS = 60.0
"""Time between two recordings that are saved without being asked for."""
_log = logging.getLogger(__name__)


class Outcome(NamedTuple):
    """What came of saving the rings.

    Attributes:
        saved: The recordings' paths.
        refused: Why others could not be saved.
    """

    saved: list[str]
    refused: list[str]


class Saving:
    """Saves the rings of the engines of one server."""

    def __init__(self, owner_pid: int, keep: int, stall_seconds: float) -> None:
        """Saves rings.

        Args:
            owner_pid: The server's process, which owns the engines.
            keep: Number of saved recordings that are kept.
            stall_seconds: Duration of a step from which on it is saved.
        """
        self._owner_pid, self._keep = owner_pid, keep
        self._stall_seconds = stall_seconds
        self._lock = threading.Lock()
        self._saved_at = -LEAST_SECONDS
        self._stalled: set[tuple[Path, int]] = set()

    def save(self, reason: str) -> Outcome:
        """Saves the ring of each engine; logs what cannot be saved.

        The ring of one that has ended is then removed.
        """
        saved: list[str] = []
        refused: list[str] = []
        with self._lock:
            for ring, header in rings_of(self._owner_pid):
                way = save_in_folder if is_live(ring) else retire
                try:
                    path = way(ring, reason, self._keep)
                except OSError as error:
                    told = f"cannot save {ring}: {error.strerror or error}"
                    _log.error("%s", told)
                    refused.append(told)
                    continue
                _log.warning(
                    "saved what engine %d did last: %s (%s)",
                    header.engine_index,
                    path,
                    reason,
                )
                saved.append(str(path))
                if not is_live(ring):
                    ring.unlink(missing_ok=True)
        return Outcome(saved, refused)

    def save_unasked(self, reason: str) -> list[str]:
        """Saves likewise, unless this was done less than a minute ago."""
        now = time.monotonic()
        with self._lock:
            if now - self._saved_at < LEAST_SECONDS:
                return []
            self._saved_at = now
        return self.save(reason).saved

    def look(self, now: int) -> list[str]:
        """Saves once for each step that takes too long; `now` is monotonic, in ns."""
        is_new = False
        for ring, header in rings_of(self._owner_pid):
            try:
                state = read_state(ring)
            except (OSError, ValueError):
                continue  # it ends meanwhile
            stall = (ring, state.steps)
            if stalled_seconds(state, header, now) < self._stall_seconds:
                self._stalled.discard(stall)
            elif stall not in self._stalled and is_live(ring):
                self._stalled.add(stall)
                is_new = True
        return self.save_unasked("stall") if is_new else []

    def forget(self, engine_index: int) -> None:
        """Removes the ring of an engine that was stopped."""
        for ring, header in rings_of(self._owner_pid):
            if header.engine_index == engine_index:
                ring.unlink(missing_ok=True)

    def front_end(self) -> FrontEndRing | None:
        """Makes a ring for the front end; None if no engine of it has one."""
        if not rings_of(self._owner_pid):
            return None
        try:
            return FrontEndRing(self._owner_pid)
        except OSError as error:
            _log.warning("there is no flight recorder of the front end: %s", error)
            return None
