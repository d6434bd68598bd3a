"""The listening socket."""

import logging
import socket

import pytest
from aiohttp import ClientSession, web

from hookline.config.readers import read_size
from hookline_metrics.front_end_parts import ServerAddress
from hookline_server.listening import (
    Bound,
    ListenError,
    bound_port,
    listen,
    listen_on,
    server_address,
    url,
)
from hookline_server.sites import sites


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


def test_several_addresses_share_a_free_port() -> None:
    """
    Each has a socket, and the URL is that of the first.
    """
    found = Bound(listen_on(("127.0.0.1", "127.0.0.2", "127.0.0.1"), 0))
    ports = {bound_port(each) for each in found.sockets}
    urls = found.urls
    found.close()

    (port,) = ports
    assert urls == (f"http://127.0.0.1:{port}", f"http://127.0.0.2:{port}")


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
@pytest.mark.parametrize("hosts", [("::",), ("::", "0.0.0.0")])  # noqa: S104
def test_both_families_are_served(hosts: tuple[str, ...]) -> None:
    """
    `::` alone serves IPv4, too; beside an address of IPv4 it does not take its port.
    """
    found = Bound(listen_on(hosts, 0))
    port = bound_port(found.sockets[0])
    for address in ("127.0.0.1", "::1"):
        with socket.create_connection((address, port)) as connected:
            assert connected.getpeername()[1] == port
    found.close()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
async def test_addresses_of_ipv4_are_logged_as_such(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """
    Also on a socket of both families, whose system writes them as those of IPv6.
    """
    caplog.set_level(logging.INFO, logger="aiohttp.access")
    bound = Bound(listen_on(("::",), 0))
    root = f"http://127.0.0.1:{bound_port(bound.sockets[0])}"
    async with sites([(web.Application(), bound)]), ClientSession(root) as session:
        for _ in range(2):  # a request has its line before the next
            await (await session.get("/nothing")).read()

    assert {getattr(each, "client", "") for each in caplog.records} == {"127.0.0.1"}


def test_one_bad_address_closes_all() -> None:
    """
    The others' port is free again.
    """
    with listen("127.0.0.1", 0) as free:
        port = bound_port(free)

    with pytest.raises(ListenError, match=r"203\.0\.113\.1"):
        listen_on(("127.0.0.1", "203.0.113.1"), port)

    listen("127.0.0.1", port).close()
