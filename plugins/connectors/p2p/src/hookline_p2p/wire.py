"""What engines say to each other: msgpack in a message's header.

A consumer asks a producer for a few blocks at a time, as often as it must; an answer
stands for itself. So messages may be lost and come twice, and the producer has nothing
to remember but what it keeps.
"""

from collections.abc import Sequence

import msgspec
import xxhash

from hookline.kv_transfer.blocks import Bytes


class Ask(msgspec.Struct, array_like=True, tag="ask", frozen=True):
    """Wants blocks; answered by `Blocks` or `Denial`.

    Attributes:
        number: Of the consumer's own.
        first: Index of the first of these blocks, in what the consumer wants of it.
        engine_id: Of the producer, which may have been started anew since.
        transfer_id: Under which the producer keeps them.
        fingerprint: Of the consumer's blocks.
        hashes: Of those it wants.
    """

    number: int
    first: int
    engine_id: str
    transfer_id: int
    fingerprint: str
    hashes: list[bytes]


class Blocks(msgspec.Struct, array_like=True, tag="blocks", frozen=True):
    """What was asked for; its frames are layers, each [blocks, bytes].

    Attributes:
        number: Of the question.
        first: Likewise.
        checksums: Of each block.
    """

    number: int
    first: int
    checksums: list[int]


DENIALS = frozenset({"gone", "foreign", "missing", "malformed"})
"""Of a question."""


class Denial(msgspec.Struct, array_like=True, tag="denial", frozen=True):
    """Of an `Ask`.

    Attributes:
        number: Of the question.
        reason: One of `DENIALS`.
    """

    number: int
    reason: str


class Release(msgspec.Struct, array_like=True, tag="release", frozen=True):
    """Blocks are not wanted any longer; answered by `Released`."""

    engine_id: str
    transfer_id: int


class Released(msgspec.Struct, array_like=True, tag="released", frozen=True):
    """The producer knows it."""

    transfer_id: int


class Offer(msgspec.Struct, array_like=True, tag="offer", frozen=True):
    """A producer has blocks for a request that will come; answered by `Reply`.

    Attributes:
        engine_id: Of the producer.
        host: Where it listens.
        port: Likewise.
        transfer_id: Under which it keeps them.
        fingerprint: Of its blocks.
        hashes: Of them.
    """

    engine_id: str
    host: str
    port: int
    transfer_id: int
    fingerprint: str
    hashes: list[bytes]


REFUSALS = frozenset({"full", "foreign", "address", "unwilling"})
"""Of an offer."""


class Reply(msgspec.Struct, array_like=True, tag="reply", frozen=True):
    """To an `Offer`.

    Attributes:
        transfer_id: Of the offer.
        refusal: Why the blocks are not taken, one of `REFUSALS`; empty if they are.
    """

    transfer_id: int
    refusal: str


class Ping(msgspec.Struct, array_like=True, tag="ping", frozen=True):
    """Asks whether anybody is there."""


class Pong(msgspec.Struct, array_like=True, tag="pong", frozen=True):
    """Says so."""


Word = Ask | Blocks | Denial | Release | Released | Offer | Reply | Ping | Pong

encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Word)


def decode(header: bytes) -> Word | None:
    """What it says; None if it is none of these."""
    try:
        word: Word = _decoder.decode(header)
    except msgspec.MsgspecError:
        return None
    return word


def checksums(
    fingerprint: str, hashes: Sequence[bytes], layers: Sequence[Bytes]
) -> list[int]:
    """XXH3 of each block, 64 bits: what it is said to be, and its bytes in all layers.

    Args:
        fingerprint: Of the blocks.
        hashes: Theirs.
        layers: Each [blocks, bytes].
    """
    found = []
    for index, block_hash in enumerate(hashes):
        total = xxhash.xxh3_64(fingerprint.encode() + block_hash)
        for layer in layers:
            total.update(layer[index].data)
        found.append(total.intdigest())
    return found
