"""JSON text without needless escapes, whatever tokens spell it."""

import numpy as np
import pytest

from hookline_grammars.backend import BackendContext
from hookline_grammars.json_text import JsonText

PIECES = [
    b"\\u",
    b"\\u00",
    b'a\\u0061"',
    b"0061",
    b"001f",
    b"\\\\u0061",
    b"\xed\xa0\x80",
]
CONTEXT = BackendContext(
    tokens=[*(bytes([each]) for each in range(256)), *PIECES],
    vocab_size=288,
    eos_token_ids=(280,),
    options={},
)


def is_allowed(text: JsonText, written: list[bytes]) -> bool:
    """Whether tokens may follow each other."""
    tail = b""
    for token in written:
        token_id = CONTEXT.tokens.index(token)
        words = text.mask(tail).view(np.uint32)
        if not int(words[token_id // 32]) >> token_id % 32 & 1:
            return False
        tail = text.after(tail, token_id)
    return True


@pytest.mark.parametrize(
    "written",
    [
        [b"\\", b"n"],
        [b"\\", b'"'],
        [b"\\u", b"0", b"0", b"1", b"f"],
        [b"\\u", b"001f"],
        [b"\\u00", b"7", b"f"],
        [b"\\\\u0061"],
        [b"\\", b"\\", b"u", b"0", b"0", b"6"],
        [b"\xed", b"\x95", b"\x9c"],
        [b"0061"],
    ],
)
def test_needed_escapes_and_characters_are_allowed(written: list[bytes]) -> None:
    """
    Control characters and quotes; and what only looks like an escape.
    """
    assert is_allowed(JsonText(CONTEXT), written)


@pytest.mark.parametrize(
    "written",
    [
        [b"\\", b"/"],
        [b"\\", b"u", b"0", b"0", b"6"],
        [b"\\u", b"d"],
        [b"\\u", b"0061"],
        [b"\\u00", b"e"],
        [b'a\\u0061"'],
        [b"\xed", b"\xa0"],
        [b"\xed\xa0\x80"],
    ],
)
def test_needless_escapes_and_half_characters_are_not(written: list[bytes]) -> None:
    """
    However tokens spell them.
    """
    assert not is_allowed(JsonText(CONTEXT), written)


def test_stop_tokens_stay_and_banned_bytes_do_not() -> None:
    """
    A mask only takes away tokens whose text is wrong.
    """
    words = JsonText(CONTEXT, banned=b"\t").mask(b"").view(np.uint32)

    assert int(words[280 // 32]) >> 280 % 32 & 1
    assert not int(words[0]) >> ord("\t") & 1
