"""The keys in requests' headers."""

from aiohttp import web

_BEARER = "bearer "


def bearer_token(request: web.BaseRequest) -> str:
    """Returns the request's bearer token; empty if it has none."""
    header = request.headers.get("Authorization", "")
    token = header[len(_BEARER) :] if header.lower().startswith(_BEARER) else ""
    return token.strip()


def sent_key(request: web.BaseRequest) -> str:
    """Returns the request's key; empty if it has none.

    Anthropic's clients send it as `x-api-key`, and Azure's as `api-key`; these count
    without a bearer token.
    """
    if token := bearer_token(request):
        return token
    headers = request.headers
    return (headers.get("x-api-key") or headers.get("api-key") or "").strip()


def as_bytes(text: str) -> bytes:
    """Returns a header's original bytes, which need not be UTF-8."""
    return text.encode("utf-8", "surrogateescape")
