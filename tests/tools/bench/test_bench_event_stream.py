"""Streams of servers of all sorts, byte for byte."""

import pytest

from hookline_bench.answer import TokenTimes, token_counts
from hookline_bench.event_reader import (
    MOST_EVENT_BYTES,
    EventReader,
    EventStreamError,
)

TEXT = b'{"choices":[{"index":0,"text":"a","finish_reason":null}]}'
SPACED = b'{"choices": [{"index": 0, "text": "a", "finish_reason": null}]}'
HALF = b'{"choices":[{"index":0,"text":"","finish_reason":null}]}'
END = b'{"choices":[{"index":0,"text":"","finish_reason":"stop"}]}'
ROLE = b'{"choices":[{"delta":{"role":"assistant","content":""}}]}'
SAID = b'{"choices":[{"delta":{"content":"Hi"},"finish_reason":null}]}'
THOUGHT = b'{"choices":[{"delta":{"reasoning_content":"hm"}}]}'
CALL = b'{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}'
OVER = b'{"choices":[{"delta":{},"finish_reason":"stop"}]}'
TRAP = rb'{"choices":[{"text":"\"usage\":{\"completion_tokens\":9}\n\ndata: x"}]}'


def usage(tokens: int, choice: bytes = b"") -> bytes:
    return b'{"choices":[%b],"usage":{"prompt_tokens":7,"completion_tokens":%d}}' % (
        choice,
        tokens,
    )


def chunk_of(tokens: int) -> bytes:
    return usage(tokens, b'{"text":"a","finish_reason":null}')


def with_ids(*ids: int) -> bytes:
    return b'{"choices":[{"text":"a","token_ids":%b}]}' % str(list(ids)).encode()


def taken(*payloads: bytes) -> TokenTimes:
    """The payloads, one a second."""
    tokens = TokenTimes()
    for second, payload in enumerate(payloads):
        tokens.take(payload, float(second))
    return tokens


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
def test_events_are_whole_however_they_are_cut(size: int, end: bytes) -> None:
    """
    Payloads come out the same whatever pieces the bytes come in.
    """
    lines = [b"data: {1}", b"", b": ping", b"", b"event: x", b"data:{2}", b"", b""]
    raw = end.join(lines) + b"data: [DONE]"
    reader = EventReader()

    found = [
        payload
        for start in range(0, len(raw), size)
        for payload in reader.feed(raw[start : start + size])
    ]

    assert found == [b"{1}", b"{2}"]
    assert reader.finish() == [b"[DONE]"]


def test_an_event_without_end_is_an_error() -> None:
    """
    A server that never ends an event does not fill the memory.
    """
    reader = EventReader()

    with pytest.raises(EventStreamError, match="more than"):
        reader.feed(b"data: " + b"x" * MOST_EVENT_BYTES)


@pytest.mark.parametrize(
    ("payloads", "times"),
    [
        ((TEXT, SPACED, usage(2), b"[DONE]"), [0.0, 1.0]),
        ((TEXT, HALF, TEXT, END), [0.0, 1.0, 2.0]),
        ((ROLE, SAID, SAID, OVER), [1.0, 2.0]),
        ((ROLE, THOUGHT, CALL), [1.0, 2.0]),
        ((TRAP,), [0.0]),
        ((usage(0, b'{"delta":{"role":"assistant"}}'), chunk_of(1)), [1.0]),
        ((b'{"choices":null}', b"{}"), []),
    ],
    ids=["text", "half a character", "chat", "thoughts", "trap", "told none", "empty"],
)
def test_chunks_with_tokens_are_recognised(
    payloads: tuple[bytes, ...], times: list[float]
) -> None:
    """
    Roles, ends and usage are no tokens; half a character, a thought and a call are.
    """
    assert taken(*payloads).times == times


@pytest.mark.parametrize(
    ("payloads", "counts"),
    [
        ((TEXT, TEXT, TEXT), [1, 1, 1]),
        ((chunk_of(1), chunk_of(4), chunk_of(6), usage(6)), [1, 3, 2]),
        ((with_ids(5), with_ids(6, 7), with_ids()), [1, 2]),
        ((TEXT, TEXT, TEXT, usage(6)), [1, 2, 3]),
        ((TEXT, TEXT, TEXT, usage(2)), [1, 1, 1]),
        ((TEXT, usage(4)), [4]),
    ],
    ids=["nothing told", "usage", "ids", "only the sum", "too few", "one chunk"],
)
def test_token_counts_come_from_the_server(
    payloads: tuple[bytes, ...], counts: list[int]
) -> None:
    """
    Each chunk's tokens come from its usage or ids, else from the sum, else are one.
    """
    assert taken(*payloads).counts() == counts


@pytest.mark.parametrize("chunks", [2, 3, 10, 64])
@pytest.mark.parametrize("surplus", [1, 5, 63, 200])
def test_spread_tokens_add_up(chunks: int, surplus: int) -> None:
    """
    Where only the sum is known, every chunk has a token and the sum is right.
    """
    counts = token_counts([None] * chunks, chunks + surplus)

    assert sum(counts) == chunks + surplus
    assert counts[0] == 1
    assert max(counts[1:]) - min(counts[1:]) <= 1


def test_usage_has_the_prompt_length() -> None:
    """
    The server's count of prompt tokens is used.
    """
    tokens = taken(TEXT, usage(1))

    assert (tokens.prompt_tokens, tokens.completion_tokens) == (7, 1)


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        (b'{"error":{"message":"out of memory"}}', "out of memory"),
        (b"{", "not a chunk"),
        (b'{"choices":[{"token_ids":"x"}]}', "not a chunk"),
        (b"\xff\xfe", "not a chunk"),
    ],
)
def test_invalid_chunks_are_errors(payload: bytes, complaint: str) -> None:
    """
    An error in the stream, or an unreadable event, fails the request.
    """
    with pytest.raises(EventStreamError, match=complaint):
        taken(payload)
