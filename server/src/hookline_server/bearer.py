"""Bearer tokens: what a request brought, and whether it is the right one."""

import hmac

from aiohttp import web

_BEARER = "bearer "


def bearer_token(request: web.Request) -> str:
    """The token that the request brought; empty where it brought none."""
    header = request.headers.get("Authorization", "")
    given = header[len(_BEARER) :] if header.lower().startswith(_BEARER) else ""
    return given.strip()


def is_same(given: str, wanted: str) -> bool:
    """Compares two secrets in a time that tells nothing about them."""
    return hmac.compare_digest(as_bytes(given), as_bytes(wanted))


def as_bytes(text: str) -> bytes:
    """A header's text as bytes, also where it was not UTF-8."""
    return text.encode("utf-8", "surrogateescape")
