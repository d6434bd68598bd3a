"""Long conversions in slices, between which the event loop serves others."""

import asyncio
from collections.abc import Sequence

import msgspec

from hookline_server.protocol.wire import encode

SLICE_TOKENS = 64
"""Tokens between two turns; about 3 ms with the most log-probabilities."""


class Turns:
    """Lets other tasks run after each slice."""

    def __init__(self) -> None:
        self._tokens = 0

    async def took(self, tokens: int) -> None:
        """Counts converted tokens, and waits for the next turn after enough."""
        self._tokens += tokens
        if self._tokens >= SLICE_TOKENS:
            self._tokens = 0
            await asyncio.sleep(0)


class Columns:
    """A JSON object with parallel lists that are encoded piece by piece."""

    def __init__(self, empty: msgspec.Struct) -> None:
        """Takes the object with empty lists."""
        self._around = encode(empty).split(b"[]")
        self._pieces: list[list[bytes]] = [[] for _ in self._around[1:]]

    def add(self, *lists: Sequence[object]) -> None:
        """Adds to each list, in the order of the object's fields."""
        for pieces, values in zip(self._pieces, lists, strict=True):
            if values:
                pieces.append(msgspec.json.encode(values)[1:-1])

    def raw(self) -> msgspec.Raw:
        """Returns the encoded object."""
        filled = [self._around[0]]
        for pieces, behind in zip(self._pieces, self._around[1:], strict=True):
            filled += (b"[", b",".join(pieces), b"]", behind)
        return msgspec.Raw(b"".join(filled))
