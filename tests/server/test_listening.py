"""The listening socket."""

import socket

import pytest

from hookline.config.readers import read_size
from hookline_metrics.front_end_parts import ServerAddress
from hookline_server.listening import (
    ListenError,
    bound_port,
    listen,
    server_address,
    url,
)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", socket.gethostname()),  # noqa: S104
    ],
)
def test_observers_know_where_the_server_listens(host: str, expected: str) -> None:
    """
    The address is the socket's, or the machine's name where it has all addresses.
    """
    with listen(host, 0) as bound:
        address = server_address(bound)

        assert address == ServerAddress(host=expected, port=bound_port(bound))


def test_port_in_use_is_one_error() -> None:
    """
    A port in use is an error that names it.
    """
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]

        with pytest.raises(ListenError, match=f"port {port}: Address already in use"):
            listen("127.0.0.1", port)


def test_port_can_be_taken_again_at_once() -> None:
    """
    A port that was given back can be taken at once.
    """
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]

    with listen("127.0.0.1", port) as second:
        assert url(second) == f"http://127.0.0.1:{port}"


def test_unknown_host_is_one_error() -> None:
    """
    An address that is none of this machine's is an error that names it.
    """
    with pytest.raises(ListenError, match=r"203\.0\.113\.1"):
        listen("203.0.113.1", 8000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1024", 1024),
        ("512MiB", 512 * 2**20),
        ("2GiB", 2**31),
        ("1.5 kb", 1500),
        ("3B", 3),
    ],
)
def test_sizes_have_units(text: str, expected: int) -> None:
    """
    Sizes are bytes, or have a binary or a decimal unit.
    """
    assert read_size(text) == expected
