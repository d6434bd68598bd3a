"""Reads a batch's input in slices, so that its size does not matter."""

from pathlib import Path
from typing import BinaryIO, NamedTuple

from hookline_server.cli.errors import UsageError

_SLICE_LINES = 64
_SLICE_BYTES = 1 << 20
_SKIP_BYTES = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # Windows programs begin files of UTF-8 with it


class Line(NamedTuple):
    """A line that is not blank.

    Attributes:
        number: Its number, from 1.
        data: Its bytes; None if they are too many.
    """

    number: int
    data: bytes | None


class InputFile:
    """The lines of a file."""

    def __init__(self, path: Path, longest: int) -> None:
        """Opens the file.

        Args:
            path: Its path.
            longest: Maximum bytes of a line; longer ones are not kept.

        Raises:
            UsageError: It cannot be read.
        """
        self._longest = longest
        self._number = 0
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from error

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def next_slice(self) -> list[Line]:
        """Returns the next lines; none at the end of the file. Blocks to read them."""
        lines: list[Line] = []
        size = 0
        while len(lines) < _SLICE_LINES and size < _SLICE_BYTES:
            data = self._file.readline(self._longest + 1)
            if not data:
                break
            self._number += 1
            size += len(data)
            if len(data) > self._longest and not data.endswith(b"\n"):
                self._skip_rest()
                lines.append(Line(self._number, None))
            elif stripped := data.removeprefix(_BYTE_ORDER_MARK).strip():
                lines.append(Line(self._number, stripped))
        return lines

    def _skip_rest(self) -> None:
        while data := self._file.readline(_SKIP_BYTES):
            if data.endswith(b"\n"):
                return
