"""The protocol between engines: msgpack in a message's header.

A consumer requests a few blocks at a time, and repeats requests that are not answered.
Every answer is self-contained, so messages may be lost or duplicated, and the producer
has no state besides the blocks that it keeps.
"""

from collections.abc import Sequence

import msgspec
import xxhash

from hookline_kv_transfer.blocks import Bytes


class Ask(msgspec.Struct, array_like=True, tag="ask", frozen=True):
    """Requests blocks; answered by `Blocks` or `Denial`.

    Attributes:
        number: The consumer's number of the fetch.
        first: Index in the fetch of the first requested block.
        engine_id: Id of the producer, which may have restarted since.
        transfer_id: The producer's number for the blocks.
        fingerprint: Fingerprint of the consumer's layout.
        hashes: Hashes of the requested blocks.
    """

    number: int
    first: int
    engine_id: str
    transfer_id: int
    fingerprint: str
    hashes: list[bytes]


class Blocks(msgspec.Struct, array_like=True, tag="blocks", frozen=True):
    """The requested blocks; its frames are layers, each [blocks, bytes].

    Attributes:
        number: Number in the request.
        first: Index in the request.
        checksums: Checksum of each block.
    """

    number: int
    first: int
    checksums: list[int]


DENIALS = frozenset({"gone", "foreign", "missing", "malformed"})
"""Reasons of a `Denial`."""


class Denial(msgspec.Struct, array_like=True, tag="denial", frozen=True):
    """The refusal of an `Ask`.

    Attributes:
        number: Number in the request.
        reason: One of `DENIALS`.
    """

    number: int
    reason: str


class Release(msgspec.Struct, array_like=True, tag="release", frozen=True):
    """Frees kept blocks; answered by `Released`."""

    engine_id: str
    transfer_id: int


class Released(msgspec.Struct, array_like=True, tag="released", frozen=True):
    """Confirms a `Release`."""

    transfer_id: int


class Offer(msgspec.Struct, array_like=True, tag="offer", frozen=True):
    """Offers blocks for a request that is about to come; answered by `Reply`.

    Attributes:
        engine_id: Id of the producer.
        host: Address that it listens on.
        port: Port that it listens on.
        transfer_id: The producer's number for the blocks.
        fingerprint: Fingerprint of its layout.
        hashes: Hashes of the blocks.
    """

    engine_id: str
    host: str
    port: int
    transfer_id: int
    fingerprint: str
    hashes: list[bytes]


REFUSALS = frozenset({"full", "foreign", "address", "unwilling"})
"""Reasons to refuse an `Offer`."""


class Reply(msgspec.Struct, array_like=True, tag="reply", frozen=True):
    """The answer to an `Offer`.

    Attributes:
        transfer_id: Number in the offer.
        refusal: One of `REFUSALS`; empty if the offer is accepted.
    """

    transfer_id: int
    refusal: str


class Ping(msgspec.Struct, array_like=True, tag="ping", frozen=True):
    """Asks whether the engine is alive; answered by `Pong`."""


class Pong(msgspec.Struct, array_like=True, tag="pong", frozen=True):
    """Answers a `Ping`."""


Word = Ask | Blocks | Denial | Release | Released | Offer | Reply | Ping | Pong

encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Word)


def decode(header: bytes) -> Word | None:
    """Returns the message, or None if it is malformed."""
    try:
        word: Word = _decoder.decode(header)
    # msgspec's errors are ValueErrors, and so is that of text that is not UTF-8.
    except (ValueError, RecursionError):
        return None
    return word


def checksums(
    fingerprint: str, hashes: Sequence[bytes], layers: Sequence[Bytes]
) -> list[int]:
    """Returns XXH3 (64 bits) of each block's identity and its bytes in all layers.

    Args:
        fingerprint: Fingerprint of the layout.
        hashes: Hashes of the blocks.
        layers: Layers, each [blocks, bytes].
    """
    found = []
    for index, block_hash in enumerate(hashes):
        total = xxhash.xxh3_64(fingerprint.encode() + block_hash)
        for layer in layers:
            total.update(layer[index].data)
        found.append(total.intdigest())
    return found
