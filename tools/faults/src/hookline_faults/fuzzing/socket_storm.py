"""Sends bytes and messages to sockets that are not HTTP, as fast as they take them."""

import random
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import zmq

from hookline_faults.fuzzing.case import Case
from hookline_faults.fuzzing.socket_cases import line_bytes

_PATIENCE_SECONDS = 2.0
_OPEN_AT_ONCE = 64
"""Connections that are left open for a while, as an idle client would."""


@dataclass(slots=True)
class SocketStorm:
    """Sends cases to addresses as ZMQ writes them: `tcp://HOST:PORT`, `ipc://PATH`.

    Attributes:
        outcomes: How often cases of a kind ended in a way.
        faults: None: such sockets need not answer.
        num_faults: 0.
    """

    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    faults: tuple[tuple[Case, str], ...] = ()
    num_faults: int = 0

    def send_lines(
        self, name: str, address: str, count: int, source: random.Random
    ) -> None:
        """Connects this many times, and writes bytes that are hardly ZMQ's."""
        counts = self.outcomes.setdefault(f"{name}: bytes", Counter())
        waiting: list[socket.socket] = []
        for _ in range(count):
            made, outcome = _send_line(address, line_bytes(source), source)
            counts[outcome] += 1
            if made is not None:
                waiting.append(made)
            if len(waiting) > _OPEN_AT_ONCE:
                waiting.pop(0).close()
        for each in waiting:
            each.close()

    def send_messages(
        self,
        name: str,
        address: str,
        count: int,
        *,
        kind: int,
        make: Callable[[], list[bytes]],
    ) -> None:
        """Sends this many messages over ZMQ, from a socket of this kind."""
        counts = self.outcomes.setdefault(f"{name}: messages", Counter())
        with zmq.Context() as context, context.socket(kind) as made:
            made.setsockopt(zmq.LINGER, 200)
            made.setsockopt(zmq.SNDTIMEO, round(_PATIENCE_SECONDS * 1000))
            made.connect(address)
            for _ in range(count):
                try:
                    made.send_multipart(make())
                    counts["sent"] += 1
                except zmq.Again:
                    counts["not taken"] += 1
                with suppress(zmq.ZMQError):  # a kind that only sends
                    while made.poll(0):
                        made.recv_multipart(zmq.NOBLOCK)


def _send_line(
    address: str, data: bytes, source: random.Random
) -> tuple[socket.socket | None, str]:
    """Returns the connection if it is still open, and how it ended otherwise."""
    try:
        made = _connected(address)
    except OSError as error:
        return None, type(error).__name__
    try:
        made.sendall(data)
        if source.random() < 0.5:
            made.settimeout(0.005)
            with suppress(TimeoutError):
                made.recv(4096)
    except OSError as error:
        made.close()
        return None, type(error).__name__
    if source.random() < 0.5:
        made.close()
        return None, "closed by us"
    return made, "left open"


def _connected(address: str) -> socket.socket:
    kind, _, place = address.partition("://")
    if kind == "ipc":
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(_PATIENCE_SECONDS)
        made.connect(str(Path(place)))
        return made
    host, _, port = place.rpartition(":")
    return socket.create_connection((host, int(port)), _PATIENCE_SECONDS)
