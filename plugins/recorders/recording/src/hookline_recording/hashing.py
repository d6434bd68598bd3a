"""Salted hashes of KV blocks, which are equal where the prefix cache's are."""

from collections.abc import Iterable
from hashlib import blake2b

from hookline.engine.kv_cache.hashing import BlockHasher
from hookline.request import GenerateRequest, Request
from hookline_recording.schema import Header

DIGEST_BYTES = 8


class PromptHasher:
    """Hashes the full blocks of requests, each together with all before it.

    It does so to the prefix cache's own hashes, so that blocks of prompts and outputs
    that the cache would share have equal hashes, and others have not.
    """

    def __init__(self, header: Header, algorithm: str) -> None:
        """Takes the salt and the size of blocks from a recording's header."""
        self._block_size = header.block_size
        self._keyed = blake2b(digest_size=DIGEST_BYTES, key=header.salt)
        self._blocks = BlockHasher(header.block_size, algorithm)

    def digest(self, data: bytes) -> bytes:
        keyed = self._keyed.copy()  # takes a third of the time of making one
        keyed.update(data)
        return keyed.digest()

    def of_prompt(self, request: GenerateRequest) -> bytes:
        """Hashes a prompt; returns nothing of one that the cache cannot hash."""
        hashes: list[bytes] = []
        adapter, cache_salt = request.adapter, request.cache_salt
        prompt = request.prompt_token_ids
        try:
            self._blocks.extend(hashes, prompt, adapter=adapter, cache_salt=cache_salt)
        except (ValueError, TypeError, OverflowError):
            return b""
        return self.salted(hashes)

    def of_output(self, request: Request) -> bytes:
        """Hashes the blocks that have become full since a request's prompt."""
        first = request.num_prompt_tokens // self._block_size
        return self.salted(request.block_hashes[first:])

    def salted(self, block_hashes: Iterable[bytes]) -> bytes:
        """Joins the salted hashes of hashes of the prefix cache."""
        return b"".join(map(self.digest, block_hashes))
