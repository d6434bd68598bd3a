"""`python -m hookline_server.health_check`: is the server of this container ready?

Exits with 0 if it is. It imports little, since images run it every few seconds. It
learns where the server listens from the arguments of the first process, or variables.
"""

import os
import socket
import ssl
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

_PATH = "/health/ready"
_SECONDS = 4.0
_READY = 200
_WIDE = ("0.0.0.0", "::")  # noqa: S104 - not bound here


def is_ready(words: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Asks the server, with TLS first if it is known to have that.

    Args:
        words: The server's command line.
        environment: Its variables.
    """

    def told(option: str) -> str | None:
        flag, value = f"--{option}", None
        for word, after in zip(words, [*words, ""][1:], strict=True):
            name, equals, given = word.partition("=")
            if name.replace("_", "-") == flag:
                value = given if equals else after
        variable = f"HOOKLINE_{option.replace('-', '_').upper()}"
        return value or environment.get(variable)

    path, host = told("uds"), (told("host") or "127.0.0.1").split(",")[0]
    host = "127.0.0.1" if host in _WIDE else host
    place = path or (host, int(told("port") or 8000))
    chain = told("ssl-certfile")
    ways = [None, _trusting(chain, told("ssl-keyfile"))]
    return any(_answers(place, each) for each in ways[:: -1 if chain else 1])


def _answers(place: str | tuple[str, int], tls: ssl.SSLContext | None) -> bool:
    with suppress(OSError, HTTPException), _connected(place) as plain:
        # Not by urllib, which would ask the proxy of HTTP_PROXY.
        connection = HTTPConnection("localhost")
        connection.sock = tls.wrap_socket(plain) if tls else plain
        with connection.sock:
            connection.request("GET", _PATH)
            return connection.getresponse().status == _READY
    return False


def _connected(place: str | tuple[str, int]) -> socket.socket:
    if not isinstance(place, str):
        return socket.create_connection(place, _SECONDS)
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(_SECONDS)
    try:
        made.connect(place)
    except OSError:
        made.close()
        raise
    return made


def _trusting(chain: str | None, key: str | None) -> ssl.SSLContext:
    """Returns what takes any certificate: the server's names are those outside.

    Servers that want one of clients are shown their own.
    """
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with suppress(OSError):  # `ssl.SSLError` is one
        if chain is not None:
            context.load_cert_chain(chain, key)
    return context


def main() -> int:
    """Looks at the first process of the container, and asks."""
    with suppress(OSError):
        text = Path("/proc/1/cmdline").read_text("utf-8", "replace")
        words = text.rstrip("\0").split("\0")
        if any("hookline" in each for each in words):
            return int(not is_ready(words, os.environ))
    return int(not is_ready([], os.environ))


if __name__ == "__main__":
    sys.exit(main())
