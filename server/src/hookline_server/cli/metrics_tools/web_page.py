"""Fetches a page of a running server."""

from http.client import HTTPException
from urllib.error import HTTPError

from hookline_processes.addresses import AddressError
from hookline_server.cli.asking import cause_of, open_url
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


def fetch(url: str, *, token: str | None = None) -> str:
    """Returns the text of a page.

    Raises:
        UsageError: It cannot be read.
    """
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        with open_url(url, headers, timeout_seconds=TIMEOUT_SECONDS) as response:
            return str(response.read(MOST_BYTES), "utf-8")
    except HTTPError as error:
        with error:
            raise UsageError(f"{url} answers {error.code} {error.reason}") from error
    except AddressError as error:
        raise UsageError(str(error)) from error
    except (OSError, HTTPException, ValueError) as error:
        raise UsageError(f"cannot read {url}: {cause_of(error)}") from error
