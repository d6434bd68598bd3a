"""Messages of the connector `p2p`, and its checksums."""

import numpy as np
import pytest

from hookline_p2p.wire import Ask, checksums, decode, encode

LAYERS = [np.arange(12, dtype=np.uint8).reshape(2, 6) + layer for layer in range(2)]
HASHES = [b"a" * 32, b"b" * 32]


def test_checksums_cover_model_tokens_and_data() -> None:
    """Model and tokens, and every byte of every layer, each block for itself."""
    found = checksums("model", HASHES, LAYERS)

    assert checksums("model", HASHES[:1], [each[:1] for each in LAYERS]) == found[:1]
    others = [
        checksums("other", HASHES, LAYERS),
        checksums("model", HASHES[::-1], LAYERS),
        checksums("model", HASHES, LAYERS[::-1]),
        checksums("model", HASHES, [each[::-1] for each in LAYERS]),
    ]
    for other in others:
        assert not set(found) & set(other)


def test_messages_survive_a_round_trip() -> None:
    """Fields are equal after decoding."""
    ask = Ask(1, 2, "engine", 3, "model", HASHES)

    assert decode(encode(ask)) == ask


@pytest.mark.parametrize(
    "header",
    [
        *(b"", b"\xc1", b"\x91\xa3ask", b"x" * 1000),
        b"\x92\xa2\xff\xfe\x01",  # text that is not UTF-8
        b"\x91" * 100_000,
    ],
)
def test_invalid_messages_are_none(header: bytes) -> None:
    """Nothing is raised, whatever a stranger sends."""
    assert decode(header) is None
