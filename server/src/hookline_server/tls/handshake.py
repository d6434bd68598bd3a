"""Opens accepted connections with TLS; clients that speak plain HTTP are told so."""

import asyncio
import logging
import socket
import ssl
from contextlib import suppress

from hookline_server.access_log import MAPPED
from hookline_server.api_error import ApiError
from hookline_server.connections.connection import LINGER_SECONDS, Connection
from hookline_server.connections.limits import ConnectionLimits
from hookline_server.connections.refusal import to_bytes
from hookline_server.logs.redaction import in_one_line
from hookline_server.tls.certificates import Tls

HANDSHAKE = 0x16
"""First byte of every connection with TLS: the type of its first record."""

_PIECE = 4096

logger = logging.getLogger(__name__)


async def open_with_tls(
    accepted: socket.socket, connection: Connection, tls: Tls, limits: ConnectionLimits
) -> None:
    """Opens a connection after its handshake, or gives it up.

    The pool counts it from the start, and may give it up to make room for others. It
    costs nothing but its socket until the client sends something.
    """
    loop, peer = asyncio.get_running_loop(), _peer(accepted)
    connection.arrive(lambda: _give_up(accepted))
    try:
        first = await _first_byte(accepted)
        if first is None:
            connection.fail(None)
        elif first == HANDSHAKE:
            await loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=tls.context,
                ssl_handshake_timeout=limits.header,
                ssl_shutdown_timeout=limits.write,
            )
            if connection.is_open:
                return
            connection.fail("tls_handshake")
        else:
            await _refuse(accepted, first)
            connection.fail("malformed")
    except OSError as error:  # `ssl.SSLError` is one
        if isinstance(error, ssl.SSLError):
            logger.info("no TLS with %s: %s", peer, _reason(error))
        connection.fail("tls_handshake")
    accepted.close()


async def _first_byte(accepted: socket.socket) -> int | None:
    """Returns the first byte, which stays unread; None if the client leaves before."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(accepted, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(accepted)
    first = accepted.recv(1, socket.MSG_PEEK)
    return first[0] if first else None


async def _refuse(accepted: socket.socket, first: int) -> None:
    """Answers what may be HTTP; all that comes is dropped, so that nothing is reset."""
    if not chr(first).isalpha():
        return
    loop = asyncio.get_running_loop()
    text = "this port speaks TLS: use https:// instead of http://"
    accepted.send(to_bytes(ApiError(400, text, code="tls_required")))
    accepted.shutdown(socket.SHUT_WR)
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while await loop.sock_recv(accepted, _PIECE):
                pass


def _give_up(accepted: socket.socket) -> None:
    """Ends what is waited for; the transport, if there is one, sees the end."""
    with suppress(OSError):  # the client has left already
        accepted.shutdown(socket.SHUT_RDWR)


def _peer(accepted: socket.socket) -> str:
    try:
        name = accepted.getpeername()
    except OSError:  # it has left already
        name = None
    return str(name[0]).removeprefix(MAPPED) if isinstance(name, tuple) else "a client"


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return in_one_line(error.verify_message)
    reason: str | None = error.reason
    return in_one_line(reason.replace("_", " ").lower() if reason else str(error))
