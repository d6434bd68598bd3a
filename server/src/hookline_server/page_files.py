"""Static files of loggers, restricted to one folder."""

import asyncio
from mimetypes import MimeTypes
from pathlib import Path

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from hookline_server.api_error import ApiError

INDEX = "index.html"

_TYPES = MimeTypes()
_TYPES.add_type("text/javascript", ".js")
_TYPES.add_type("text/javascript", ".mjs")
_TYPES.add_type("font/woff2", ".woff2")
_TYPES.add_type("application/json", ".map")
_WITH_CHARSET = ("text/", "application/json", "image/svg+xml")
_PUBLIC = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; "
    "style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
"""What a page may do to which its visitor gives a key."""


class PageFile(web.FileResponse):
    """A file that is sent once, though middleware and aiohttp both prepare it."""

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Sends the file, unless it has been sent."""
        return None if self.prepared else await super().prepare(request)


async def serve_file(
    folder: Path, name: str, path: str, *, is_public: bool = False
) -> PageFile:
    """Returns the response with a file; its bytes are read off the event loop.

    Clients may keep the file, and ask whether it has changed (ETag, Last-Modified).

    Args:
        folder: Resolved path of the folder.
        name: Path of the file in the folder, as the client sent it; may be empty.
        path: Path of the request, for the error.
        is_public: Whether it is part of a page that needs no key.

    Raises:
        ApiError: 404; the file does not exist in the folder, or is hidden.
    """
    found = await asyncio.to_thread(_find, folder, name or INDEX)
    if found is None:
        raise ApiError(404, f"there is no {path}", code="route_not_found")
    return PageFile(
        found,
        headers={
            "Content-Type": content_type(found.name),
            "Cache-Control": "no-cache",
            "X-Content-Type-Options": "nosniff",
            **(_PUBLIC if is_public else {}),
        },
    )


def content_type(name: str) -> str:
    """Returns a file's content type, by its name's ending; text is UTF-8."""
    found = _TYPES.guess_type(name)[0] or "application/octet-stream"
    return f"{found}; charset=utf-8" if found.startswith(_WITH_CHARSET) else found


def _find(folder: Path, name: str) -> Path | None:
    if any(part.startswith(".") for part in name.split("/")):
        return None
    try:
        found = (folder / name).resolve()
        if found.is_relative_to(folder) and found.is_file():
            return found
    except (OSError, RuntimeError, ValueError):  # too long, a loop of links, a NUL
        pass
    return None
