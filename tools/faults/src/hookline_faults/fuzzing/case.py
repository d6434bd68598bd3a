"""A case of fuzzing over HTTP: the bytes that a client sends, and how it sends them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto

from hookline_faults.fuzzing.responses import Response

Header = tuple[bytes, bytes]


class Ending(Enum):
    """What a client does after it has sent everything."""

    READ = auto()
    """Reads until the server closes, or its patience ends."""
    HALF_CLOSE = auto()
    """Closes its sending side, then reads."""
    CLOSE = auto()
    """Closes at once."""
    RESET = auto()
    """Closes at once with a reset."""


@dataclass(frozen=True, slots=True)
class Case:
    """One exchange.

    Attributes:
        kind: What is fuzzed; a row of the report.
        pieces: Bytes to send, one piece after another.
        is_request: Whether the pieces are exactly one request in good form, whose
            response must be in good form, too.
        pause_seconds: Time between two pieces.
        ending: What the client does after the last piece; a request in good form is
            always read.
        may_time_out: Whether the request asks for a deadline, so that 504 is right.
        judge: Returns what else is wrong with a response in good form, or None.
    """

    kind: str
    pieces: tuple[bytes, ...]
    is_request: bool = False
    pause_seconds: float = 0.0
    ending: Ending = Ending.READ
    may_time_out: bool = False
    judge: Callable[[Response], str | None] | None = None

    @property
    def data(self) -> bytes:
        """All pieces."""
        return b"".join(self.pieces)


def request_bytes(
    method: str, target: bytes, body: bytes = b"", headers: Iterable[Header] = ()
) -> bytes:
    """Returns a request in good form, if the target and the headers are."""
    given = [*headers]
    if body or method == "POST":
        given.append((b"Content-Length", b"%d" % len(body)))
    lines = b"".join(b"%s: %s\r\n" % each for each in given)
    return b"%s %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n%s" % (
        method.encode(),
        target,
        lines,
        body,
    )
