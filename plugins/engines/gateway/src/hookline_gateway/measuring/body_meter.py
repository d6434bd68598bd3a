"""Keeps an answer that is no stream, to read its usage at the end."""

from hookline_gateway.measuring.answer_reading import Found

MOST_BYTES = 4 << 20
"""Size from which on an answer is not read."""


class BodyMeter:
    """Measures one whole answer.

    Attributes:
        found: What it has said, after `end`.
    """

    def __init__(self) -> None:
        self.found = Found()
        self._pieces: list[bytes] = []
        self._size = 0

    def see(self, piece: bytes) -> None:
        """Looks at the next bytes of the body."""
        self._size += len(piece)
        if self._size <= MOST_BYTES:
            self._pieces.append(piece)
        else:
            self._pieces.clear()

    def finish(self) -> None:
        """Reads the body."""
        if self._pieces:
            self.found.read(b"".join(self._pieces))
            self._pieces.clear()
