"""Splits the bytes of an event stream into the payloads of its events."""

MOST_EVENT_BYTES = 16 * 1024 * 1024


class EventStreamError(Exception):
    """The response is not a stream of events that can be measured."""


class EventReader:
    """Collects bytes and returns the payload of each complete event."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Returns the payloads that these bytes complete, in order.

        Raises:
            EventStreamError: An event exceeds the maximum length.
        """
        if self._rest:
            data = self._rest + data
        if b"\r" in data:
            # JSON holds no line break, so this can only be the end of a line.
            data = data.replace(b"\r\n", b"\n")
        *events, self._rest = data.split(b"\n\n")
        if len(self._rest) > MOST_EVENT_BYTES:
            raise EventStreamError(f"an event has more than {MOST_EVENT_BYTES} bytes")
        return [payload for event in events if (payload := _payload(event))]

    def finish(self) -> list[bytes]:
        """Returns a last event without its blank line."""
        return self.feed(b"\n\n")


def _payload(event: bytes) -> bytes:
    if event.startswith(b"data: ") and b"\n" not in event:
        return event[6:]
    lines = (line for line in event.split(b"\n") if line.startswith(b"data:"))
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines)
