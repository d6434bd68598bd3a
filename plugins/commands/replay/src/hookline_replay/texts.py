"""Prompts and outputs in place of those that a recording has only hashes of.

A block's tokens are drawn from its hash, so that blocks are equal where they were.
"""

from hookline_recording.hashing import DIGEST_BYTES
from hookline_replay.script import END, Script, block_hashes

_PLACES = 1 << 32
_POSITIVE = (1 << 62) - 1


class Texts:
    """Makes the tokens of requests by their positions."""

    def __init__(self, script: Script) -> None:
        """Makes those of a recording's requests."""
        self._script = script
        self._size = script.header.block_size
        self._hashes: dict[int, list[bytes]] = {}

    def prompt(self, request_id: int) -> list[int]:
        """Returns a request's prompt."""
        length = self._script.arrived[request_id].prompt_tokens
        hashes, size = self._of(request_id), self._size
        tokens: list[int] = []
        for each in hashes[: length // size]:
            tokens.append(_token(each))
            tokens += [0] * (size - 1)
        tokens += (self.token(request_id, at) for at in range(len(tokens), length))
        return tokens

    def output(self, request_id: int, first: int, count: int) -> list[int]:
        """Returns tokens of a request's output.

        Args:
            request_id: The request.
            first: How many it has had before.
            count: How many more it gets.
        """
        if (arrived := self._script.arrived.get(request_id)) is None:
            return [0] * count
        length = arrived.prompt_tokens
        ended = self._script.ended.get(request_id)
        last = None
        if ended is not None and ended.kind == "StoppedByToken":
            last = ended.output_tokens - 1
        return [
            END if at == last else self.token(request_id, length + at)
            for at in range(first, first + count)
        ]

    def token(self, request_id: int, position: int) -> int:
        """Returns one token; of a block without a hash it is like no other."""
        hashes = self._of(request_id)
        block, offset = divmod(position, self._size)
        if block < len(hashes):
            return 0 if offset else _token(hashes[block])
        return 1 + request_id % _PLACES * _PLACES // 2 + position

    def _of(self, request_id: int) -> list[bytes]:
        if (found := self._hashes.get(request_id)) is not None:
            return found
        arrived = self._script.arrived[request_id]
        prompt = block_hashes(arrived.block_hashes, DIGEST_BYTES)
        ended = self._script.ended.get(request_id)
        outputs = block_hashes(ended.output_hashes if ended else b"", DIGEST_BYTES)
        missing = arrived.prompt_tokens // self._size - len(prompt)
        # A prompt that cannot be hashed shares no block, and its outputs do neither.
        found = self._hashes[request_id] = [] if missing else [*prompt, *outputs]
        return found


def _token(block_hash: bytes) -> int:
    return int.from_bytes(block_hash, "little") & _POSITIVE
