"""Asks a running server; for commands."""

import argparse
import json
import os
import re
import ssl
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError

from hookline_processes.addresses import AddressError, read_url
from hookline_processes.proxies import proxy_for
from hookline_server.cli.errors import CommandFailedError

_SCHEMES = ("http://", "https://")
_PLACE = re.compile(r"([\w.-]+|\[[0-9A-Fa-f:.%]+\]):\d{1,5}/?", re.ASCII)


def url_of(source: str | None) -> str | None:
    """Returns the server that a command's argument names: a URL, or `HOST:PORT`.

    None if it names a file or a process, or nothing. A file goes before a server.
    """
    if source is None or source.startswith(_SCHEMES):
        return source
    if _PLACE.fullmatch(source) and not Path(source).exists():
        return f"http://{source}"
    return None


def add_api_key(parser: argparse.ArgumentParser, scope: str) -> None:
    """Adds the option `--api-key`, for a key of a scope."""
    parser.add_argument(
        "--api-key",
        default=os.environ.get("HOOKLINE_API_KEY"),
        metavar="KEY",
        help=f"key with the scope {scope} (default: HOOKLINE_API_KEY)",
    )
    parser.set_defaults(scope=scope)


def open_page(
    url: str,
    path: str,
    *,
    key: str | None,
    scope: str,
    logger: str,
    method: str = "GET",
    timeout_seconds: float = 60.0,
) -> HTTPResponse:
    """Asks a server for a page; the caller reads and closes the response.

    Args:
        url: The server's.
        path: The page's, with its query.
        key: An API key.
        scope: What the key must have; it is told if the server refuses.
        logger: Stat logger that has the page; it is told if the server has none.
        method: HTTP method.
        timeout_seconds: Time until the server must answer.

    Raises:
        CommandFailedError: The server refuses or does not answer, and this says why.
    """
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        return open_url(
            url.rstrip("/") + path, headers, method, timeout_seconds=timeout_seconds
        )
    except HTTPError as error:
        with error:
            page = path.partition("?")[0]
            reason = _reason(error, page, is_keyed=bool(key), scope=scope, has=logger)
        raise CommandFailedError(f"{url} {reason}") from error
    except AddressError as error:
        raise CommandFailedError(str(error)) from error
    except (OSError, HTTPException) as error:
        raise CommandFailedError(f"cannot reach {url}: {cause_of(error)}") from error


def open_url(
    url: str,
    headers: Mapping[str, str],
    method: str = "GET",
    *,
    timeout_seconds: float,
) -> HTTPResponse:
    """Opens a URL, by the proxy that the environment names for its host, if any.

    Raises:
        HTTPError: The server refuses.
        OSError: It does not answer.
        HTTPException: It answers something else than HTTP.
        AddressError: That is no URL.
    """
    parts, proxy = read_url(url), proxy_for(url)
    # Unlike in URLs, the zone of an address is not quoted for sockets.
    there = parts._replace(netloc=parts.netloc.replace("%25", "%")).geturl()
    proxies = {} if proxy is None else {parts.scheme: proxy}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
    data = b"" if method == "POST" else None
    request = urllib.request.Request(  # noqa: S310 - of the user's own server
        there, data=data, headers=dict(headers), method=method
    )
    opened: HTTPResponse = opener.open(request, timeout=timeout_seconds)
    return opened


def cause_of(error: Exception) -> object:
    """Returns why a URL could not be opened, and for a certificate what to do."""
    cause = getattr(error, "reason", error)
    if not isinstance(cause, ssl.SSLCertVerificationError):
        return cause
    return (
        f"its certificate is not trusted ({cause.verify_message}); SSL_CERT_FILE names "
        "a file of authorities to trust"
    )


def _reason(
    error: HTTPError, page: str, *, is_keyed: bool, scope: str, has: str
) -> str:
    """Says what a server's refusal means, and what to do."""
    text = error.read().decode(errors="replace").strip()
    code, told = "", text
    with suppress(ValueError, LookupError, TypeError):
        found = json.loads(text)["error"]
        code, told = str(found["code"]), str(found["message"])
    if error.code in (401, 403):
        if not is_keyed:
            return f"asks for a key of the scope {scope}: --api-key or HOOKLINE_API_KEY"
        return f"refuses the key, which needs the scope {scope}: {told}"
    if code == "route_not_found":
        return (
            f"has no {page}: it takes --stat-logger {has}, and pages may have another "
            "port (--metrics-port)"
        )
    return f"answers: {told}" if told else f"answers {error.code} {error.reason}"
