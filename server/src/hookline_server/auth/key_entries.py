"""The entries of a file of API keys; errors never quote what could be a key."""

import re
from collections.abc import Mapping, Sized
from typing import Annotated

import msgspec
from msgspec import Meta

from hookline.request import Weight
from hookline_server.auth.key import (
    ApiKey,
    KeySet,
    Limits,
    Permissions,
    PriorityRange,
    Scope,
    Tenant,
)
from hookline_server.auth.key_table import digest_of
from hookline_server.tenant_names import is_tenant

MOST_KEYS = 10_000
NAME_RULE = "must be 1 to 64 letters, digits and ._:-"

Count = Annotated[int, Meta(ge=1, le=10**12)]

_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_UNKNOWN = re.compile(r"Object contains unknown field `.*?`(?= - at|$)", re.DOTALL)


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class PermissionsEntry(_Entry, frozen=True):
    priority: bool | tuple[int, int] = False
    cache_salt: bool = True
    kv_transfer_params: bool = False
    tenant: bool = False


class LimitsEntry(_Entry, frozen=True):
    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    concurrent_requests: Count | None = None


class KeyEntry(_Entry, frozen=True):
    name: str
    key: str | None = None
    sha256: str | None = None
    tenant: str | None = None
    scopes: tuple[str, ...] = (Scope.SERVE,)
    permissions: PermissionsEntry = PermissionsEntry()
    limits: LimitsEntry = LimitsEntry()
    weight: Weight | None = None


class TenantEntry(_Entry, frozen=True):
    weight: Weight = 1.0
    limits: LimitsEntry = LimitsEntry()


class File(_Entry, frozen=True):
    keys: list[KeyEntry]
    tenants: dict[str, TenantEntry] = {}


def keys_of(content: Mapping[object, object]) -> KeySet:
    """Returns the keys of a file's content.

    Raises:
        ValueError: Something in it is wrong.
    """
    if isinstance(content.get("keys"), list):
        return _listed(content)
    return _of_tenants(content)


def _listed(content: Mapping[object, object]) -> KeySet:
    try:
        file = msgspec.convert(content, File)
    except msgspec.ValidationError as error:
        raise ValueError(_UNKNOWN.sub("unknown field", str(error))) from None
    _check_number(file.keys)
    keys: dict[bytes, ApiKey] = {}
    for number, entry in enumerate(file.keys, 1):
        place = f"key {number}"
        digest = _digest(place, entry)
        if digest in keys:
            raise ValueError(f"{place} is the same as an earlier one")
        keys[digest] = _key(place, entry)
    if not all(map(is_tenant, file.tenants)):
        raise ValueError(f"tenants: a name {NAME_RULE}")
    tenants = {
        name: Tenant(limits=_limits(entry.limits), weight=entry.weight)
        for name, entry in file.tenants.items()
    }
    return KeySet(keys, tenants)


def _of_tenants(content: Mapping[object, object]) -> KeySet:
    """Reads the short form: `API key: tenant` lines."""
    _check_number(content)
    keys: dict[bytes, ApiKey] = {}
    for number, (key, tenant) in enumerate(content.items(), 1):
        place = f"entry {number}"
        if not isinstance(key, str) or not isinstance(tenant, str):
            message = "key and tenant must be strings; put quotes around numbers"
            raise ValueError(f"{place}: {message}")  # noqa: TRY004
        digest = _digest_of_text(place, key)
        if not is_tenant(tenant):
            # Not quoted: if the columns are swapped, this is a key.
            raise ValueError(f"{place}: the tenant {NAME_RULE}")
        keys[digest] = ApiKey(name=place.replace(" ", "-"), tenant=tenant)
    return KeySet(keys)


def _check_number(keys: Sized) -> None:
    if len(keys) > MOST_KEYS:
        raise ValueError(f"there are more than {MOST_KEYS} keys")


def _key(place: str, entry: KeyEntry) -> ApiKey:
    if not is_tenant(entry.name):
        raise ValueError(f"{place}: the name {NAME_RULE}")
    if entry.tenant is not None and not is_tenant(entry.tenant):
        raise ValueError(f"{place}: the tenant {NAME_RULE}")
    if not entry.scopes or not set(entry.scopes) <= set(Scope):
        raise ValueError(f"{place}: scopes must be some of {', '.join(Scope)}")
    return ApiKey(
        name=entry.name,
        tenant=entry.tenant,
        scopes=frozenset(map(Scope, entry.scopes)),
        permissions=_permissions(place, entry.permissions),
        limits=_limits(entry.limits),
        weight=entry.weight,
    )


def _permissions(place: str, entry: PermissionsEntry) -> Permissions:
    allowed = PriorityRange() if entry.priority else None
    if isinstance(entry.priority, tuple):
        lowest, highest = entry.priority
        if lowest > highest:
            raise ValueError(f"{place}: priority must be [LOWEST, HIGHEST]")
        allowed = PriorityRange(lowest, highest)
    return Permissions(
        priority=allowed,
        cache_salt=entry.cache_salt,
        kv_transfer_params=entry.kv_transfer_params,
        tenant=entry.tenant,
    )


def _limits(entry: LimitsEntry) -> Limits:
    return Limits(
        requests_per_minute=entry.requests_per_minute,
        tokens_per_minute=entry.tokens_per_minute,
        concurrent_requests=entry.concurrent_requests,
    )


def _digest(place: str, entry: KeyEntry) -> bytes:
    if (entry.key is None) == (entry.sha256 is None):
        raise ValueError(f"{place} must have either key or sha256")
    if entry.key is not None:
        return _digest_of_text(place, entry.key)
    if entry.sha256 is None or not _DIGEST.fullmatch(entry.sha256):
        raise ValueError(f"{place}: sha256 must have 64 hexadecimal digits")
    return bytes.fromhex(entry.sha256)


def _digest_of_text(place: str, key: str) -> bytes:
    if not key or key != key.strip():
        raise ValueError(f"{place}: the key is empty, or has spaces around it")
    return digest_of(key)
