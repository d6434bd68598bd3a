"""The API keys for `/v1/*` and their tenants."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass

from hookline_server.bearer import as_bytes


@dataclass(frozen=True, slots=True)
class KeyOwner:
    """The owner of an API key.

    Attributes:
        tenant: The tenant; None for a key without one.
    """

    tenant: str | None


class ApiKeys:
    """All valid keys, stored as keyed digests.

    Lookups leak no timing information about the keys: a digest's place in the table
    depends on a secret of this process.
    """

    def __init__(self, api_key: str | None, tenant_keys: Mapping[str, str]) -> None:
        self._secret = os.urandom(16)
        self._owners = {
            self._digest(key): KeyOwner(tenant) for key, tenant in tenant_keys.items()
        }
        if api_key is not None:
            self._owners.setdefault(self._digest(api_key), KeyOwner(None))

    @property
    def are_required(self) -> bool:
        """Whether requests need a key; without any configured, the API is open."""
        return bool(self._owners)

    def find(self, key: str) -> KeyOwner | None:
        """Returns the owner of a key, or None if the key is invalid."""
        return self._owners.get(self._digest(key))

    def _digest(self, key: str) -> bytes:
        return hashlib.blake2b(as_bytes(key), key=self._secret).digest()
