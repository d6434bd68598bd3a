"""What an observer process keeps of front ends for the process that replaces it."""

import logging
import os
from pathlib import Path

import msgspec

from hookline.front_end_parts import FrontEndPart
from hookline_observer.messages import Changed, changed, parts_of

_log = logging.getLogger(__name__)


class KeptMerging(msgspec.Struct, frozen=True, array_like=True):
    """The sums that no front end can tell again.

    Attributes:
        left: Totals of the front ends that have ended.
        lost: Notices that were lost; see `LostNotices`.
        lost_by_front_end: Likewise.
    """

    left: Changed = Changed(())
    lost: int = 0
    lost_by_front_end: dict[int, int] = {}

    @property
    def parts(self) -> tuple[FrontEndPart, ...]:
        """The totals as parts."""
        return parts_of(self.left)


class KeptFile:
    """The file with it; without a path nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._last = KeptMerging()

    def read(self) -> KeptMerging:
        """Returns what the process before this one has kept."""
        if self._path is None:
            return self._last
        try:
            data = self._path.read_bytes()
            self._last = msgspec.msgpack.decode(data, type=KeptMerging)
        except FileNotFoundError:
            pass  # this is the first process
        except (OSError, msgspec.MsgspecError) as error:
            _log.warning("%s is of no use: %s", self._path, error)
        return self._last

    def write(
        self,
        left: tuple[FrontEndPart, ...],
        lost: int,
        lost_by_front_end: dict[int, int],
    ) -> None:
        """Writes it if it has changed."""
        if self._path is None:
            return
        kept = KeptMerging(changed(left), lost, dict(lost_by_front_end))
        if kept == self._last:
            return
        written = self._path.with_name(f"{self._path.name}.new")
        try:
            written.write_bytes(msgspec.msgpack.encode(kept))
            os.replace(written, self._path)  # noqa: PTH105 - of one file system
        except OSError as error:
            _log.warning("totals of front ends are not kept: %s", error)
        self._last = kept
