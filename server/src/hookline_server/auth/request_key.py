"""The API key of a request, once it is authenticated."""

from aiohttp import web

from hookline_server.auth.key import ApiKey

API_KEY: web.RequestKey[ApiKey] = web.RequestKey("hookline_api_key", ApiKey)
"""Absent if the request needs no key."""


def key_of(request: web.Request) -> ApiKey | None:
    """Returns the request's key; None if it needs none."""
    key: ApiKey | None = request.get(API_KEY)
    return key
