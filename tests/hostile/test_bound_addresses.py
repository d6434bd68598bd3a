"""A server listens on loopback addresses only, unless it is told otherwise."""

import ipaddress
import socket
from pathlib import Path

import pytest

from hookline_testing.server_process import Server, serving

pytestmark = pytest.mark.hostile

LISTENS = "0A"
"""State of a listening socket in /proc/net/tcp."""

SMALL = "--executor=simulated", "--num-kv-blocks=256"


def bound(server: Server) -> set[tuple[str, int]]:
    """Addresses and ports on which the server and its engine listen."""
    inodes = {
        link.readlink().name
        for pid in (server.process.pid, server.engine_pid)
        for link in Path(f"/proc/{pid}/fd").iterdir()
        if str(link.readlink()).startswith("socket:")
    }
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == LISTENS and f"socket:[{inode}]" in inodes:
                host, _, port = local.partition(":")
                found.add((_address(host), int(port, 16)))
    return found


def _address(host: str) -> str:
    words = [bytes.fromhex(host[at : at + 8])[::-1] for at in range(0, len(host), 8)]
    return str(ipaddress.ip_address(b"".join(words)))


def _skip_if_taken(port: int) -> None:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        pytest.skip(f"port {port} of KV events is in use")


def test_every_socket_is_on_loopback() -> None:
    """
    KV events, pages and the API are reachable from this machine only.
    """
    _skip_if_taken(5557)
    with serving(
        "--port=0",
        "--metrics-port=0",
        "--stat-logger=prometheus",
        "--kv-events-config",
        '{"enable_kv_cache_events": true, "replay_endpoint": "tcp://127.0.0.1:*"}',
        *SMALL,
    ) as server:
        found = bound(server)

    assert len(found) == 4
    assert {host for host, _ in found} == {"127.0.0.1"}
    assert 5557 in {port for _, port in found}


def test_listening_everywhere_without_a_key_warns() -> None:
    """
    Opening the API or the KV events to a network without a key is in the log, once.
    """
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    with serving(
        "--host=0.0.0.0",
        "--port=0",
        "--kv-events-config",
        f'{{"enable_kv_cache_events": true, "endpoint": "tcp://*:{port}"}}',
        *SMALL,
    ) as server:
        log = server.log_with("without an API key", "without authentication")

    assert log.count("without an API key") == 1
    assert log.count("without authentication") == 1


def test_listening_everywhere_with_a_key_does_not_warn() -> None:
    """
    With a key the address is the operator's choice.
    """
    with serving("--host=0.0.0.0", "--port=0", "--api-key=k", *SMALL) as server:
        log = server.log.read_text()

    assert "without an API key" not in log
