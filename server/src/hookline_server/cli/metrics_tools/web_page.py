"""Fetches a page of a running server."""

import urllib.error
import urllib.request
from http.client import HTTPException

from hookline_processes.addresses import AddressError, read_url
from hookline_processes.proxies import proxy_for
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
    """Whether the text is meant to be a URL, and not a file."""
    return text.startswith(("http://", "https://"))


def fetch(url: str, *, token: str | None = None) -> str:
    """Returns the text of a page.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        parts, proxy = read_url(url), proxy_for(url)
    except AddressError as error:
        raise UsageError(str(error)) from error
    # Unlike in URLs, the zone of an address is not quoted for sockets.
    there = parts._replace(netloc=parts.netloc.replace("%25", "%")).geturl()
    proxies = {} if proxy is None else {parts.scheme: proxy}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        request = urllib.request.Request(there, headers=headers)  # noqa: S310
        with opener.open(request, timeout=TIMEOUT_SECONDS) as response:
            return str(response.read(MOST_BYTES), "utf-8")
    except urllib.error.HTTPError as error:
        with error:
            raise UsageError(f"{url} answers {error.code} {error.reason}") from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise UsageError(f"cannot read {url}: {reason}") from error
