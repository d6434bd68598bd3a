"""Who pays for a request: whose share, place and turn it takes.

A key is known by its digest, and a client without one by its address. What a request
only claims, such as its tenant, divides what its payer has, and brings no more.
"""

import ipaddress
from functools import lru_cache

from hookline_processes.fair_queue import Client
from hookline_server.auth.key import ApiKey

_HOST_BITS = 64
"""Bits of an IPv6 address that a client can choose as it likes."""


def payer_of(key: ApiKey | None, address: str | None) -> str:
    """Returns who pays: the key or, without one, the client's address."""
    if key is not None:
        return f"key:{key.id}"
    return peer(address or "")


def client_of(payer: str, tenant: str | None, certain: str | None) -> Client:
    """Returns who is served in turn with others.

    Args:
        payer: Who pays.
        tenant: The request's tenant, which may be only claimed.
        certain: The tenant if it is certain: its keys share what it has.
    """
    return (payer, tenant or "") if certain is None else (f"tenant:{certain}", payer)


@lru_cache(maxsize=4096)
def peer(address: str) -> str:
    """Returns who pays if a client has no key."""
    return f"peer:{_network(address)}"


def _network(address: str) -> str:
    if ":" not in address:
        return address
    try:
        found = ipaddress.IPv6Address(address)
    except ValueError:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    high = int(found) >> _HOST_BITS << _HOST_BITS
    return f"{ipaddress.IPv6Address(high)}/{_HOST_BITS}"
