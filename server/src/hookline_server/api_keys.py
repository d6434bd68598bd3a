"""The keys that open `/v1/*`, and whose they are."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass

from hookline_server.bearer import as_bytes


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose key it is.

    Attributes:
        tenant: None for a key that belongs to no tenant.
    """

    tenant: str | None


class ApiKeys:
    """All valid keys, held as keyed digests.

    A look-up takes as long for a wrong key as for a right one, however many there are:
    where a digest falls in the table cannot be guessed without this process's secret.
    """

    def __init__(self, api_key: str | None, tenant_keys: Mapping[str, str]) -> None:
        self._secret = os.urandom(16)
        self._holders = {
            self._digest(key): Holder(tenant) for key, tenant in tenant_keys.items()
        }
        if api_key is not None:
            self._holders.setdefault(self._digest(api_key), Holder(None))

    @property
    def are_asked_for(self) -> bool:
        """Whether there is any key; without one the API is open."""
        return bool(self._holders)

    def find(self, given: str) -> Holder | None:
        """Whose key it is; None if it is nobody's."""
        return self._holders.get(self._digest(given))

    def _digest(self, key: str) -> bytes:
        return hashlib.blake2b(as_bytes(key), key=self._secret).digest()
