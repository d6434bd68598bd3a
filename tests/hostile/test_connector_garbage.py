"""Random and forged bytes to the port on which engines exchange KV blocks.

The forged messages come from a process that knows the engines' secret.
"""

import json
import random
import socket
from collections.abc import Iterator

import msgspec
import pytest
import zmq

from hookline_faults.p2p_transport import make_known
from hookline_testing.own_time import Deadline
from hookline_testing.server_process import Server, serving

pytestmark = pytest.mark.hostile

BAD_TEXT = b"\x92\xa4gone\xa2\xff\xfe"
"""A message whose text is not UTF-8."""
NUM_FORGED = 50
END_SECONDS = 30


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def server(port: int) -> Iterator[Server]:
    config = {
        "kv_connector": "p2p",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"port": port},
    }
    arguments = ("--port=0", "--executor=simulated")
    with serving(*arguments, f"--kv-transfer-config={json.dumps(config)}") as running:
        yield running


def send_garbage(port: int) -> None:
    """Sends random bytes, alone and after a correct greeting, on many connections."""
    source = random.Random(3)  # noqa: S311
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(48)
    for index in range(40):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(greeting if index % 2 else b"")
            connection.sendall(source.randbytes(300))


def send_forged(port: int) -> None:
    """Sends messages of the right protocol with wrong and truncated content."""
    words = [
        msgspec.msgpack.encode(["denial", 1, "~"]).replace(b"~", b"\xff"),
        msgspec.msgpack.encode(["ask", 1, 0, "~", 2, "f", [b"h"]]).replace(
            b"~", b"\xff"
        ),
        msgspec.msgpack.encode(["release", "~", 1]).replace(b"~", b"\xc0"),
        b"\x91" * 10_000,
        BAD_TEXT,
    ]
    with zmq.Context() as context, context.socket(zmq.DEALER) as peer:
        peer.setsockopt(zmq.LINGER, 5000)
        make_known(peer)
        peer.connect(f"tcp://127.0.0.1:{port}")
        for index in range(NUM_FORGED):
            peer.send_multipart([words[index % len(words)], b"rest"])


def test_garbage_is_counted_and_logs_no_traceback(server: Server, port: int) -> None:
    """
    Each bad message is counted, the log gets a line now and then and never a traceback,
    and requests are answered.
    """
    send_garbage(port)
    send_forged(port)

    labels = {"stage": "incident", "reason": "malformed"}
    deadline = Deadline(END_SECONDS)
    body = {"prompt": [1, 2, 3], "max_tokens": 4}
    while True:
        status, answer = server.post("/v1/completions", {"model": "demo", **body})
        assert status == 200, answer
        counted = server.find("hookline_kv_transfer_failures_total", **labels)
        if counted is not None and counted >= NUM_FORGED:
            break
        assert deadline.is_ahead, f"{counted} of {NUM_FORGED} counted"

    log = server.log.read_text()
    assert "Traceback" not in log
    assert log.count("malformed") <= 2
