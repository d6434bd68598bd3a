"""Counts a stream's events and when they came, at a glance at each piece of it.

Only the first events, up to the one with the first token, and the last few are read;
between them it looks for the ends of events.
"""

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from hookline_gateway.measuring.answer_reading import Found

LAST_EVENTS = 8
"""Number of the last groups of events that are kept to be read at the end."""

MOST_OPEN_BYTES = 1 << 20
"""Size from which on an event without an end is not kept."""

_CRLF_END = b"\r\n\r\n"
_MOST_TAIL_BYTES = len(_CRLF_END) - 1

Interval = tuple[int, int]
"""Nanoseconds, and the number of tokens that they brought."""


class EventMeter:
    """Measures one stream of server-sent events.

    Attributes:
        found: What its messages have said, all of it after `end`.
        first_at: When the first token came, in ns; None before.
    """

    def __init__(self, clock: Callable[[], int], first: Callable[[int], None]) -> None:
        """Begins before the first piece.

        Args:
            clock: Monotonic nanoseconds.
            first: Called once with the time of the first token.
        """
        self.found = Found()
        self.first_at: int | None = None
        self._clock = clock
        self._first = first
        self._end = b"\n\n"
        self._open: list[bytes] = []
        self._open_bytes = 0
        self._tail = b""  # of what is open, in which an end may have begun
        # Of each piece with events, the time and the number of these.
        self._times = array("q")
        self._counts = array("l")
        self._last: deque[bytes] = deque(maxlen=LAST_EVENTS)

    def see(self, piece: bytes) -> None:
        """Looks at the next bytes of the stream."""
        if not piece.endswith(self._end) and not self._ends_otherwise(piece):
            self._hold(piece)
            return
        end = self._end
        if self._open:
            self._open.append(piece)
            piece = b"".join(self._open)
            self._forget_open()
        if self.first_at is None:
            self._look_for_first(piece)
            return
        if piece[0] == 0x3A and b"data:" not in piece:  # a comment keeps it alive
            return
        self._note(piece, self._clock(), piece.count(end))

    def finish(self) -> None:
        """Reads the last events, and counts those with tokens."""
        for index, group in enumerate(self._last, len(self._counts) - len(self._last)):
            is_first = index == 0  # which is read already, up to the first token
            has_content = [self.found.read(each) for each in messages(group)]
            if is_first:
                has_content = has_content[has_content.index(True) :]
            self._counts[index] = sum(has_content)
        self._last.clear()
        # An event without its end is none, but it may tell the end all the same.
        for message in messages(b"".join(self._open)):
            self.found.read(message)
        self._open.clear()

    @property
    def last_at(self) -> int | None:
        """When the last token came, in ns; None without one."""
        pairs = zip(reversed(self._times), reversed(self._counts), strict=True)
        return next((at for at, count in pairs if count), self.first_at)

    def intervals(self, tokens: int) -> Sequence[Interval]:
        """Returns the times between tokens, of which there are `tokens` in all.

        Each event brings as many as every other, as far as whole numbers allow.
        """
        return shared(self._times, self._counts, tokens)

    def _note(self, piece: bytes, at: int, count: int) -> None:
        """Notes a piece with whole events, from that of the first token on."""
        self._times.append(at)
        self._counts.append(count)
        self._last.append(piece)

    def _ends_otherwise(self, piece: bytes) -> bool:
        """Whether a piece ends an event by CRLF, as all events then do."""
        if self._times or _CRLF_END not in (text := self._tail + piece):
            return False
        self._end = _CRLF_END
        return text.endswith(_CRLF_END)

    def _forget_open(self) -> None:
        self._open, self._open_bytes, self._tail = [], 0, b""

    def _hold(self, piece: bytes) -> None:
        """Keeps what follows the last end of an event; what precedes it is seen."""
        if self._end in self._tail + piece[:_MOST_TAIL_BYTES]:  # it is in two pieces
            piece = b"".join((*self._open, piece))
            self._forget_open()
            self.see(piece)
            return
        whole, end, rest = piece.rpartition(self._end)
        if end:
            self.see(whole + end)
        if self._open_bytes + len(rest) > MOST_OPEN_BYTES:
            self._forget_open()
        elif rest:
            self._open.append(rest)
            self._tail = (self._tail + rest)[-_MOST_TAIL_BYTES:]
            self._open_bytes += len(rest)

    def _look_for_first(self, piece: bytes) -> None:
        before = 0
        for message in messages(piece):
            if self.found.read(message):
                break
            before += 1
        else:
            return
        self.first_at = now = self._clock()
        self._note(piece, now, max(1, piece.count(self._end) - before))
        # It is called once, and a method of the meter's owner, who has the meter:
        # together they would be garbage that only a full collection finds.
        tell, self._first = self._first, _nobody
        tell(now)


def _nobody(_: int) -> None:
    """Is told of what is known."""


def shared(
    times: Sequence[int], counts: Sequence[int], tokens: int
) -> Sequence[Interval]:
    """Returns the times between tokens that events bring, as many as every other.

    Args:
        times: When something came, in ns; the first time begins the first interval.
        counts: Numbers of events that came then.
        tokens: Number of tokens of all.
    """
    events = sum(counts)
    if not events:
        return ()
    found: list[Interval] = []
    seen, given, since = 0, 0, times[0]
    for number, (at, count) in enumerate(zip(times, counts, strict=True)):
        seen += count
        share = seen * tokens // events
        if number == 0:
            given = max(1, share)
        elif share > given:
            found.append((at - since, share - given))
            given, since = share, at
    return found


def messages(events: bytes) -> Iterator[bytes]:
    """Yields the data of each event."""
    for event in events.replace(b"\r\n", b"\n").split(b"\n\n"):
        data = [
            line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")
        ]
        if data:
            yield b"\n".join(data)
