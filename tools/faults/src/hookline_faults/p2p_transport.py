"""A transport that corrupts an engine's messages, controlled by a test."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import zmq

from hookline.config.extensions import KV_TRANSFER
from hookline_faults.wire_time import WireTime
from hookline_kv_transfer.blocks import Bytes
from hookline_p2p.transport import Message, Peer, Refusals, Transport, Visitor
from hookline_p2p.zmq_transport import keys_of
from hookline_processes.local_secret import local_secret_file
from hookline_testing.driven_engine import DrivenEngine, turn_until

Spoil = Callable[[bytes, Sequence[Bytes]], list[tuple[bytes, Sequence[Bytes]]]]
"""Maps a message's header and frames to the messages sent in its place."""
_POLL_SECONDS = 10.0
"""Of the system's clock; a poll ends sooner, by a message or the virtual time."""
_HELD_SECONDS = 60.0


def unspoilt(
    header: bytes, frames: Sequence[Bytes]
) -> list[tuple[bytes, Sequence[Bytes]]]:
    """Sends the message unchanged."""
    return [(header, frames)]


@dataclass
class Wire:
    """Faults on the messages that one engine sends.

    Attributes:
        spoil: Returns the messages sent instead of each message.
        is_cut: Whether all messages are dropped, in both directions.
        sent: The messages sent.
        address: Address at which the engine listens.
        time: The engines' virtual time; None if they use the system's clock.
    """

    spoil: Spoil = unspoilt
    is_cut: bool = False
    sent: int = 0
    address: Peer | None = None
    time: WireTime | None = None

    @property
    def clock(self) -> Callable[[], float]:
        """The clock of the connector's worker side, in seconds."""
        return time.monotonic if self.time is None else self.time.seconds

    def around(self, transport: Transport) -> "SpoiltTransport":
        return SpoiltTransport(transport, self)


class SpoiltTransport:
    """A transport behind a `Wire`."""

    def __init__(self, inner: Transport, wire: Wire) -> None:
        self._inner, self._wire = inner, wire
        self._time = wire.time

    def listen(self, engine_id: str, layout_bytes: int) -> int:
        port = self._inner.listen(engine_id, layout_bytes)
        self._wire.address = Peer(engine_id, "127.0.0.1", port)
        if self._time is not None:
            self._time.listens(self._inner, port)
        return port

    def send(
        self, to: Peer | Visitor, header: bytes, frames: Sequence[Bytes] = ()
    ) -> bool:
        if self._wire.is_cut:
            return True
        self._wire.sent += 1
        return all(self._send(to, *each) for each in self._wire.spoil(header, frames))

    def poll(self, timeout_seconds: float) -> Sequence[Message]:
        if self._time is None:
            found = self._inner.poll(timeout_seconds)
        else:
            self._time.polls(self._inner, timeout_seconds)
            found = self._inner.poll(_POLL_SECONDS)
            self._time.polled(self._inner, len(found))
        return [] if self._wire.is_cut else found

    def refusals(self) -> Refusals:
        return self._inner.refusals()

    def forget(self, peer: Peer) -> None:
        self._inner.forget(peer)

    def wake(self) -> None:
        if self._time is not None:
            self._time.woken(self._inner)
        self._inner.wake()

    def close(self) -> None:
        self._inner.close()
        if self._time is not None:
            self._time.closed(self._inner)

    def _send(self, to: Peer | Visitor, header: bytes, frames: Sequence[Bytes]) -> bool:
        if self._time is None:
            return self._inner.send(to, header, frames)
        is_awaited = self._time.sends(to.port if isinstance(to, Peer) else None)
        is_sent = self._inner.send(to, header, frames)
        if is_awaited and not is_sent:
            self._time.dropped()
        return is_sent


PREFILL: dict[str, object] = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
"""Transfer parameters that a proxy sends to a prefill instance."""


def slowly(seconds: float) -> Spoil:
    """Delays each message with blocks."""

    def spoil(
        header: bytes, frames: Sequence[Bytes]
    ) -> list[tuple[bytes, Sequence[Bytes]]]:
        if frames:
            time.sleep(seconds)
        return [(header, frames)]

    return spoil


class Held:
    """Sends the first message with blocks, and holds all others until `go_on`."""

    def __init__(self) -> None:
        self._is_first, self._goes_on = True, threading.Event()

    def __call__(
        self, header: bytes, frames: Sequence[Bytes]
    ) -> list[tuple[bytes, Sequence[Bytes]]]:
        """Is a `Spoil`; for the transport's thread."""
        if frames and not self._is_first:
            assert self._goes_on.wait(_HELD_SECONDS), "nobody lets messages go on"
        self._is_first = self._is_first and not frames
        return [(header, frames)]

    def go_on(self) -> None:
        """Sends what is held; for the test's thread."""
        self._goes_on.set()


def flipped(frames: Sequence[Bytes], at: int) -> list[Bytes]:
    """Returns a copy of the message with one bit of the last frame flipped."""
    spoilt = [np.array(each) for each in frames]
    spoilt[-1].reshape(-1)[at] ^= 4
    return spoilt


def prefilled(
    producer: DrivenEngine,
    prompt: Sequence[int],
    params: Mapping[str, object] = PREFILL,
) -> dict[str, object]:
    """Has a producer compute a prompt; returns the consumer's transfer parameters."""
    request = producer.add(prompt, 1, params)
    turn_until([producer], lambda: request in producer.ended)
    handover = producer.ended[request].sections.get(KV_TRANSFER)
    assert isinstance(handover, dict)
    return handover


def make_known(speaker: "zmq.Socket[bytes]") -> None:
    """Gives a socket the secret that engines of this user share."""
    _, speaker.curve_serverkey = keys_of(local_secret_file().read_bytes())
    speaker.curve_publickey, speaker.curve_secretkey = zmq.curve_keypair()
