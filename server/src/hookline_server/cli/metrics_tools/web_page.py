"""Fetches a page of a running server."""

import urllib.error
import urllib.request
from http.client import HTTPException

from hookline_server.cli.errors import UsageError
from hookline_server.cli.options.option import Option

TIMEOUT_SECONDS = 10.0
MOST_BYTES = 64 * 1024 * 1024

TOKEN = Option(
    flag="token",
    target="run.token",
    group="running server",
    help="The server's --metrics-token.",
)


def is_url(text: str) -> bool:
    """Whether the text is a URL."""
    return text.startswith(("http://", "https://"))


def fetch(url: str, *, token: str | None = None) -> str:
    """Returns the text of a page.

    Raises:
        UsageError: It cannot be read.
    """
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        request = urllib.request.Request(url, headers=headers)  # noqa: S310
        with urllib.request.urlopen(  # noqa: S310 - callers have looked at the scheme
            request, timeout=TIMEOUT_SECONDS
        ) as response:
            return str(response.read(MOST_BYTES), "utf-8")
    except urllib.error.HTTPError as error:
        with error:
            raise UsageError(f"{url} answers {error.code} {error.reason}") from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise UsageError(f"cannot read {url}: {reason}") from error
