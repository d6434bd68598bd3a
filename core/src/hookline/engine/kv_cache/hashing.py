"""Content hashes of full blocks, chained so that a hash stands for a whole prefix."""

import hashlib
from array import array
from collections.abc import Callable, Sequence

import msgspec

Digest = Callable[[bytes], bytes]


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _blake2b(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=32).digest()


DIGESTS: dict[str, Digest] = {"sha256": _sha256, "blake2b": _blake2b}
"""Both are collision resistant: a crafted prompt must not reuse others' blocks."""


class BlockHasher:
    """Hashes full blocks, each over its parent's hash and its own tokens.

    The first block's parent is the hash of the extra keys (the adapter's digest, cache
    salt): requests that differ in them share no block.
    """

    def __init__(self, block_size: int, algorithm: str) -> None:
        self._block_size = block_size
        self._digest = DIGESTS[algorithm]

    def extend(
        self,
        hashes: list[bytes],
        token_ids: Sequence[int],
        *,
        adapter: str | None,
        cache_salt: str | None,
    ) -> None:
        """Appends the hashes of blocks that have become full since the last call."""
        size = self._block_size
        if not hashes and len(token_ids) < size:
            return
        parent = hashes[-1] if hashes else self._root(adapter, cache_salt)
        data = array("q", token_ids[len(hashes) * size :]).tobytes()
        for end in range(8 * size, len(data) + 1, 8 * size):
            parent = self._digest(parent + data[end - 8 * size : end])
            hashes.append(parent)

    def _root(self, adapter: str | None, cache_salt: str | None) -> bytes:
        return self._digest(msgspec.msgpack.encode((adapter, cache_salt)))
