"""Bearer tokens of requests."""

from aiohttp import web

_BEARER = "bearer "


def bearer_token(request: web.BaseRequest) -> str:
    """Returns the request's bearer token; empty if it has none."""
    header = request.headers.get("Authorization", "")
    token = header[len(_BEARER) :] if header.lower().startswith(_BEARER) else ""
    return token.strip()


def as_bytes(text: str) -> bytes:
    """Returns a header's original bytes, which need not be UTF-8."""
    return text.encode("utf-8", "surrogateescape")
