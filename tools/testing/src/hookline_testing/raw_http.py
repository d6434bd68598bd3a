"""Bytes to a server, and whatever it answers."""

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hookline_testing.own_time import Stopwatch


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """The first response on a connection.

    Attributes:
        status: HTTP status; 0 if the server closed the connection without a response.
        headers: Its headers, by lower-case name.
        body: All bytes after the headers, until the server closed the connection.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        """The API's error object; fails if the body is anything else."""
        error: dict[str, Any] = json.loads(self.body)["error"]
        assert set(error) == {"message", "type", "param", "code"}, error
        return error


def connected(port: int, timeout_seconds: float = 30) -> socket.socket:
    """Returns a connection to a server on this machine."""
    return socket.create_connection(("127.0.0.1", port), timeout_seconds)


def exchange(port: int, data: bytes, timeout_seconds: float = 30) -> RawAnswer:
    """Sends bytes and reads until the server closes the connection.

    Raises:
        TimeoutError: It does not.
    """
    with connected(port, timeout_seconds) as connection:
        connection.sendall(data)
        return answer_of(connection)


def answer_of(connection: socket.socket) -> RawAnswer:
    """Reads until the server closes the connection; raises `TimeoutError`."""
    head, _, body = read_all(connection).partition(b"\r\n\r\n")
    if not head:
        return RawAnswer(0, {}, b"")
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = [line.split(": ", 1) for line in lines]
    headers = {name.lower(): value for name, value in pairs}
    return RawAnswer(int(first.split(" ")[1]), headers, body)


def read_all(connection: socket.socket) -> bytes:
    """Returns all bytes until the server closes or resets the connection."""
    received = b""
    try:
        while data := connection.recv(65536):
            received += data
    except ConnectionResetError:
        pass
    return received


def seconds_until_closed(connection: socket.socket) -> float:
    """Waits until the server closes the connection; returns the own time of that."""
    stopwatch = Stopwatch()
    read_all(connection)
    return stopwatch.own_seconds
