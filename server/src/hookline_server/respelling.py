"""Paths of the API that clients spell in other ways: slashes, and the version."""

import re
from collections.abc import Collection, Iterable

from aiohttp import web
from aiohttp.web_urldispatcher import AbstractResource

from hookline_server.request_identity import identity_of

ROOT_PATH: web.AppKey[str] = web.AppKey("hookline_root_path", str)
"""Path that a proxy in front puts before all paths of an application."""

_SLASHES = re.compile("/{2,}")
_VERSION = "/v1"
_OTHER_NAMES = {
    "/": "/health/live",
    "/chat/completion": "/v1/chat/completions",
    "/completion": "/v1/completions",
}
"""Further names, without the version; programs look at `/` to see who is there."""
_WITH_NAMES = ("/v1/models/", "/v1/responses/")
"""What paths begin with that end with a name."""


def fixed_paths(resources: Iterable[AbstractResource]) -> frozenset[str]:
    """Returns the paths of an application that contain no names."""
    found = (each.canonical for each in resources)
    return frozenset(path for path in found if "{" not in path)


def respelt(request: web.BaseRequest, paths: Collection[str]) -> web.BaseRequest:
    """Returns a request with the path that its own path means.

    Everything that looks at paths, such as the checks of keys, sees only that.

    Args:
        request: A request for a path that may be unknown.
        paths: The fixed paths.
    """
    meant = meant_path(request.rel_url.raw_path, paths)
    if meant is None or not isinstance(request, web.Request):
        return request
    identity_of(request)  # the copy shall have the same
    url = request.rel_url.with_path(meant, encoded=True, keep_query=True)
    return request.clone(rel_url=url)


def without_root(request: web.BaseRequest, root: str) -> web.BaseRequest:
    """Returns a request without the path that a proxy in front has put before its own.

    Requests without it stay as they are, because many proxies remove it themselves.
    """
    path = request.rel_url.raw_path
    if not path.startswith(f"{root}/") or not isinstance(request, web.Request):
        return request
    identity_of(request)  # the copy shall have the same
    bare = path.removeprefix(root)
    return request.clone(
        rel_url=request.rel_url.with_path(bare, encoded=True, keep_query=True)
    )


def meant_path(path: str, paths: Collection[str]) -> str | None:
    """Returns another path that is known; None if there is none, or it is the same."""
    plain = _SLASHES.sub("/", path).rstrip("/") or "/"
    while plain.startswith(f"{_VERSION}{_VERSION}/"):  # of a base URL, too
        plain = plain.removeprefix(_VERSION)
    bare = plain.removeprefix(_VERSION)
    for found in (plain, _VERSION + plain, _OTHER_NAMES.get(bare or "/")):
        if found is not None and found != path and found in paths:
            return found
    if plain != path and plain.startswith(_WITH_NAMES):
        return plain
    return None
