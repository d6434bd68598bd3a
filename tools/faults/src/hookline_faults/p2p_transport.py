"""A transport that corrupts an engine's messages, controlled by a test."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hookline.config.extensions import KV_TRANSFER
from hookline_kv_transfer.blocks import Bytes
from hookline_p2p.transport import Message, Peer, Refusals, Transport, Visitor
from hookline_testing.driven_engine import DrivenEngine, turn_until

Spoil = Callable[[bytes, Sequence[Bytes]], list[tuple[bytes, Sequence[Bytes]]]]
"""Maps a message's header and frames to the messages sent in its place."""


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
    """

    spoil: Spoil = unspoilt
    is_cut: bool = False
    sent: int = 0
    address: Peer | None = None

    def around(self, transport: Transport) -> "SpoiltTransport":
        return SpoiltTransport(transport, self)


class SpoiltTransport:
    """A transport behind a `Wire`."""

    def __init__(self, inner: Transport, wire: Wire) -> None:
        self._inner, self._wire = inner, wire

    def listen(self, engine_id: str, layout_bytes: int) -> int:
        port = self._inner.listen(engine_id, layout_bytes)
        self._wire.address = Peer(engine_id, "127.0.0.1", port)
        return port

    def send(
        self, to: Peer | Visitor, header: bytes, frames: Sequence[Bytes] = ()
    ) -> bool:
        if self._wire.is_cut:
            return True
        self._wire.sent += 1
        return all(
            self._inner.send(to, *each) for each in self._wire.spoil(header, frames)
        )

    def poll(self, timeout_seconds: float) -> Sequence[Message]:
        found = self._inner.poll(timeout_seconds)
        return [] if self._wire.is_cut else found

    def refusals(self) -> Refusals:
        return self._inner.refusals()

    def forget(self, peer: Peer) -> None:
        self._inner.forget(peer)

    def wake(self) -> None:
        self._inner.wake()

    def close(self) -> None:
        self._inner.close()


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
