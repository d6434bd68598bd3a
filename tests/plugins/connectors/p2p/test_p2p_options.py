"""Options of the connector `p2p`: errors are one line."""

import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline.exceptions import ConfigError
from hookline_faults.p2p_transport import Wire
from hookline_p2p import P2POptions, make_transport
from hookline_p2p.options import port_of_engine
from hookline_testing.driven_engine import DrivenEngine

MakeEngine = Callable[..., tuple[DrivenEngine, Wire]]


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        ({"hots": "x"}, "no option 'hots'; it has host, port"),
        ({"secret": "x" * 16}, "no option 'secret'"),
        ({"host": ""}, "host must be a text"),
        ({"host": "0.0.0.0"}, "only with a secret: name a secret_file"),  # noqa: S104
        ({"host": "10.0.0.1"}, "only with a secret"),
        ({"host": "::1:80"}, "only with a secret"),
        ({"host": "127.0.0.1:80"}, "host: '127.0.0.1:80' is not a host"),
        ({"advertised_host": "a b"}, "advertised_host: 'a b' is not a host"),
        ({"host": "[::]"}, "only with a secret"),
        ({"port": -1}, "port must be 0 to 65535"),
        ({"port": True}, "port must be 0 to 65535"),
        ({"mode": "shove"}, "mode must be one of pull, push"),
        ({"transport": "udp"}, "transport must be one of zmq, nixl"),
        ({"max_in_flight_bytes": 5}, "max_in_flight_bytes must be 1048576 to"),
        ({"max_staged_bytes": "1 GB"}, "max_staged_bytes must be 1048576 to"),
        ({"staged_seconds": 0}, "staged_seconds must be above 0"),
        ({"peer_timeout_seconds": True}, "peer_timeout_seconds must be a number"),
        ({"peer_timeout_seconds": float("nan")}, "above 0 and finite, not nan"),
        ({"secret_file": "/nowhere"}, "'/nowhere' cannot be read"),
    ],
)
def test_mistakes_are_one_line_errors(given: dict[str, object], detail: str) -> None:
    """Each in one line."""
    with pytest.raises(ConfigError, match=detail):
        P2POptions.from_mapping(given)


def test_secret_is_read_and_not_shown(tmp_path: Path) -> None:
    """Its first line; a short one is refused."""
    file = tmp_path / "secret"
    file.write_text("correct horse battery staple\nsecond line\n")

    options = P2POptions.from_mapping({"secret_file": str(file), "host": "10.0.0.1"})

    assert options.secret == b"correct horse battery staple"
    assert "horse" not in repr(options)
    file.write_text("short\n")
    with pytest.raises(ConfigError, match="fewer than 16 characters"):
        P2POptions.from_mapping({"secret_file": str(file)})


def test_wildcard_address_needs_an_advertised_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others cannot connect to 0.0.0.0."""
    monkeypatch.setenv("HOOKLINE_P2P_SECRET", "s" * 16)
    given = {"host": "0.0.0.0"}  # noqa: S104

    with pytest.raises(ConfigError, match="say in advertised_host"):
        P2POptions.from_mapping(given)

    options = P2POptions.from_mapping(given | {"advertised_host": "10.0.0.1"})
    assert options.public_host == "10.0.0.1"


def test_port_in_use_ends_the_start(make_engine: MakeEngine) -> None:
    """The error is one line that names the port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
            make_engine(port=port)


def test_nixl_that_is_not_there_ends_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error is one line that names the package to install."""
    monkeypatch.setitem(sys.modules, "nixl._api", None)

    with pytest.raises(ConfigError, match="pip install nixl"):
        make_transport(P2POptions.from_mapping({"transport": "nixl"}))


@pytest.mark.parametrize(("index", "port"), [(0, 7000), (3, 7003)])
def test_each_engine_listens_on_a_port_of_its_own(index: int, port: int) -> None:
    """Engines behind one front end add their index; a free port stays a free one."""
    assert port_of_engine(7000, index) == port
    assert port_of_engine(0, index) == 0


def test_a_port_beyond_the_last_one_is_an_error() -> None:
    """It names the first port that does not exist."""
    with pytest.raises(ConfigError, match="p2p: port 65535 leaves no room: 1 more"):
        port_of_engine(65535, 1)


@pytest.mark.parametrize("host", ["::1", "[::1]", "localhost"])
def test_ipv6_and_names_are_listened_on(host: str) -> None:
    """Brackets make no difference, and ZMQ itself would not resolve a name."""
    options = P2POptions.from_mapping({"host": host})
    transport = make_transport(options)

    port = transport.listen("engine", 1 << 20)

    with socket.create_connection((options.host, port)):
        transport.close()
