"""Asks a running server; for commands."""

import argparse
import os
import urllib.request
from http.client import HTTPResponse
from urllib.error import HTTPError

from hookline_server.cli.errors import CommandFailedError


def is_url(source: str | None) -> bool:
    """Whether a command's argument names a server, not a file or a process."""
    return source is not None and source.startswith(("http://", "https://"))


def add_api_key(parser: argparse.ArgumentParser, scope: str) -> None:
    """Adds the option `--api-key`, for a key of a scope."""
    parser.add_argument(
        "--api-key",
        default=os.environ.get("HOOKLINE_API_KEY"),
        metavar="KEY",
        help=f"key with the scope {scope} (default: HOOKLINE_API_KEY)",
    )


def open_page(
    url: str,
    path: str,
    key: str | None,
    *,
    method: str = "GET",
    timeout_seconds: float = 60.0,
) -> HTTPResponse:
    """Asks a server for a page; the caller reads and closes the response.

    Raises:
        HTTPError: The server refuses, and its body says why.
        CommandFailedError: The server does not answer.
    """
    try:
        request = urllib.request.Request(  # noqa: S310 - of the user's own server
            url.rstrip("/") + path,
            data=b"" if method == "POST" else None,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            method=method,
        )
        response: HTTPResponse = urllib.request.urlopen(  # noqa: S310
            request, timeout=timeout_seconds
        )
    except HTTPError:
        raise
    except (OSError, ValueError) as error:
        raise CommandFailedError(f"{url}: {error}") from error
    return response
