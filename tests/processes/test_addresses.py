"""Hosts, ports and URLs as people write them, with the one parser of all options."""

import socket

import pytest

from hookline_processes.addresses import (
    AddressError,
    HostPort,
    is_everywhere,
    is_loopback,
    numeric,
    read_host,
    read_port,
    read_url,
    url_of,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("[fe80::1%25eth0]", "fe80::1%eth0"),
        ("head-0.engines.svc", "head-0.engines.svc"),
        ("*", "*"),
    ],
)
def test_a_host_is_what_sockets_take(text: str, expected: str) -> None:
    """A name or an address; brackets are for where a port follows."""
    assert read_host(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "a b", "127.0.0.1:80", "[::1]:80", "http://a", "[::1", "::1]"),
        *("[a]", "1:2", "::g", "fe80::1%", "fe80::1%a/b", "a/b", "a;b", "a@b", "\n"),
    ],
)
def test_what_is_no_host_is_one_error(text: str) -> None:
    """Also a host with a port, because ports have options of their own."""
    with pytest.raises(AddressError, match=r"is not a host: write a name or an addr"):
        read_host(text)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("localhost:4317", "localhost", 4317),
        ("[::1]:5573", "::1", 5573),
        ("*:0", "*", 0),
        ("[::]:65535", "::", 65535),
    ],
)
def test_a_host_and_a_port_are_read_and_written_alike(
    text: str, host: str, port: int
) -> None:
    """An IPv6 address stands in brackets before its port."""
    found = HostPort.read(text)

    assert found == HostPort(host, port)
    assert str(found) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("::1:80", "an IPv6 address and its port are written"),
        ("localhost", "is not HOST:PORT"),
        (":80", "is not HOST:PORT"),
        ("a:65536", "'65536' is not a port, 0 to 65535"),
        ("a:-1", "'-1' is not a port"),
        ("a:²", "is not a port"),
        ("a b:1", "is not a host"),
    ],
)
def test_a_wrong_place_says_what_is_wrong(text: str, message: str) -> None:
    """One error for all options; the option's name comes with it."""
    with pytest.raises(AddressError, match=message):
        HostPort.read(text)


def test_ports_of_further_parties_exist() -> None:
    """Theirs is higher by their index, unless each takes a free one."""
    assert HostPort("a", 65533).plus(2) == HostPort("a", 65535)
    assert HostPort("a", 0).plus(2) == HostPort("a", 0)
    with pytest.raises(AddressError, match="port 65534 leaves no room: 2 more would"):
        HostPort("a", 65534).plus(2)


@pytest.mark.parametrize(
    "text",
    [
        *("http://a", "https://[::1]:8000/v1", "http://u:p@a:1", "http://a/x?y=z"),
        "http://[fe80::1%25eth0]:80",
    ],
)
def test_urls_name_a_host(text: str) -> None:
    """With or without a port, a path and all that follows."""
    assert read_url(text).geturl() == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "a", "a:80", "ftp://a", "http://", "http://:80", "http://a:0"),
        *("http://a:99999", "http://a:b", "http://a b", "http://[zz]", "http://[::1"),
        *("http://a;b", "http://a\n", "http:///x"),
    ],
)
def test_what_is_no_url_is_one_error(text: str) -> None:
    """Whatever it is, it fails before anybody connects or waits."""
    with pytest.raises(AddressError, match="is not a URL such as http://HOST:PORT"):
        read_url(text)


def test_a_url_without_brackets_is_explained() -> None:
    """The frequent mistake has its own hint."""
    with pytest.raises(AddressError, match=r"stands in brackets, http://\[::1\]:PORT"):
        read_url("http://::1:8000")


def test_urls_are_written_as_they_are_read() -> None:
    """Brackets and zones are quoted as RFC 6874 says."""
    assert url_of("::1", 80) == "http://[::1]:80"
    assert url_of("fe80::1%lo", 80, "https") == "https://[fe80::1%25lo]:80"
    assert url_of("a", 80) == "http://a:80"
    assert read_host(read_url(url_of("fe80::1%lo", 80)).hostname or "") == "fe80::1%lo"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *(("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("[::1]", True)),
        *(("::ffff:127.0.0.1", True), ("localhost", True), ("LOCALHOST.", True)),
        *(("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("*", False)),  # noqa: S104
        *(("a.localhost", False), ("localhost.example.org", False), ("fe80::1", False)),
    ],
)
def test_loopback_is_known(host: str, expected: bool) -> None:
    """Names other than localhost may lead anywhere."""
    assert is_loopback(host) is expected


def test_all_addresses_are_known() -> None:
    """ZMQ's star, and the two that sockets know."""
    assert all(map(is_everywhere, ("*", "::", "[::]", "0.0.0.0")))  # noqa: S104
    assert not is_everywhere("::1")


def test_names_become_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """IPv4 comes first; addresses are not looked up, since their zone would be lost."""
    found = [(socket.AF_INET6, ("::1", 0)), (socket.AF_INET, ("127.0.0.1", 0))]
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda *_, **__: [(family, 0, 0, "", place) for family, place in found],
    )

    assert numeric("localhost") == "127.0.0.1"
    assert numeric("fe80::1%eth0") == "fe80::1%eth0"


def test_unknown_names_are_one_error() -> None:
    """Also those that no resolver is asked."""
    with pytest.raises(AddressError, match="is unknown"):
        numeric("a..b")


def test_ports_are_numbers() -> None:
    """In ASCII digits."""
    assert read_port("0") == 0
    for text in ("", "x", "+1", "1_0", "70000"):
        with pytest.raises(AddressError):
            read_port(text)
