"""Any process of the user can write to the sockets between server and engine."""

import random
import socket
import struct
import time
from pathlib import Path

import msgspec
import pytest
import zmq

from hookline.engine.commands import SCHEMA_VERSION
from hookline_testing.own_time import Deadline
from hookline_testing.server_process import Server, serving

pytestmark = pytest.mark.hostile

COMPLETION = {"model": "demo", "prompt": [1, 2, 3], "max_tokens": 8}
KEY_BYTES = 16
DROPPED = "hookline_transport_messages_dropped_total"
RANDOM = random.Random(20)  # noqa: S311 - reproducible garbage


def socket_folder(server: Server) -> Path:
    line = Path(f"/proc/{server.engine_pid}/cmdline").read_bytes().decode()
    return next(Path(each) for each in line.split("\0") if "/hookline-" in each)


def connect_raw(path: Path) -> None:
    """Random bytes, and the announcement of a frame of 2**63 bytes, without ZMQ."""
    for number in range(100):
        with socket.socket(socket.AF_UNIX) as raw:
            raw.connect(str(path))
            huge = b"\x02" + struct.pack(">Q", 1 << 63)
            try:
                raw.sendall(huge * (number % 2) + RANDOM.randbytes(200))
            except OSError:
                continue  # it was cut already, which is right


def frames() -> list[bytes]:
    """Frames of both parties: random ones, deep ones, and every message's tag."""
    found = [b"", RANDOM.randbytes(4000)]
    # Bodies with a wrong key, and as they were without keys.
    for role in (1, 2):
        head = struct.pack("<4sHBI", b"hkln", SCHEMA_VERSION, role, 0)
        for key in (b"", bytes(KEY_BYTES)):
            found += [head + key + RANDOM.randbytes(n) for n in range(200)]
            found += [head + key + nested * 100_000 for nested in (b"\x91", b"\x81")]
            found.append(head + key + b"\xdd" + b"\xff" * 4)
            for tag in ("Attach", "Failed", "Hello", "Ready", "Start", "Detach"):
                body = {"type": tag, "address": "nowhere", "reason": "forged"}
                found.append(head + key + msgspec.msgpack.encode(body))
        other = struct.pack("<4sHBI", b"hkln", SCHEMA_VERSION, role, 7)
        attach = msgspec.msgpack.encode({"type": "Attach", "address": "nowhere"})
        found.append(other + attach)
    return found


def send_frames(path: Path) -> None:
    context = zmq.Context()
    peer = context.socket(zmq.PUSH)
    peer.connect(f"ipc://{path}")
    for frame in frames():
        peer.send(frame)
    context.destroy(linger=5000)


def test_garbage_and_forged_messages_kill_nothing() -> None:
    """They are dropped and counted; requests before and after get the same answer."""
    with serving(
        "--port", "0", "--executor", "simulated", "--num-kv-blocks", "256"
    ) as server:
        folder = socket_folder(server)
        _, before = server.post("/v1/completions", COMPLETION)
        for path in sorted(folder.glob("*.ipc")):
            connect_raw(path)
            send_frames(path)
        time.sleep(1.0)  # the messages are taken one after another
        status, after = server.post("/v1/completions", COMPLETION)
        health, reason = server.get("/health")
        mode = folder.stat().st_mode & 0o777
        expected = 2 * len(frames())
        deadline = Deadline(30)
        while (dropped := server.metric(DROPPED)) < expected:
            assert deadline.is_ahead, f"{dropped} of {expected} counted"
            time.sleep(0.1)
        # One in each process.
        log = server.log_with("dropped an invalid message", count=2)

    assert health == 200, reason
    assert status == 200
    assert after["choices"] == before["choices"]
    assert mode == 0o700
    assert "Traceback" not in log
