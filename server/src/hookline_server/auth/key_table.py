"""Finds keys by their text in constant time."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace

from hookline_server.auth.bearer import as_bytes
from hookline_server.auth.key import ApiKey


def digest_of(key: str) -> bytes:
    """Returns the SHA-256 digest under which a key is stored."""
    return hashlib.sha256(as_bytes(key)).digest()


class KeyTable:
    """All valid keys, stored as keyed digests of their SHA-256 digests.

    Lookups leak no timing information about the keys: a digest's place in the table
    depends on a secret of this process.
    """

    def __init__(self, keys: Mapping[bytes, ApiKey]) -> None:
        self._secret = os.urandom(16)
        self._keys = {
            self._hidden(digest): replace(key, id=digest.hex())
            for digest, key in keys.items()
        }

    def find(self, key: str) -> ApiKey | None:
        """Returns what is known about a key, or None if the key is invalid."""
        return self._keys.get(self._hidden(digest_of(key)))

    def _hidden(self, digest: bytes) -> bytes:
        return hashlib.blake2b(digest, key=self._secret, digest_size=32).digest()
