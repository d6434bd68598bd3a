"""Fuzzes the engine's sockets, a p2p connector's port and those of KV events."""

import json
import random
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import zmq

from hookline.engine.commands import SCHEMA_VERSION
from hookline_faults.fleet import free_port
from hookline_faults.fuzzing.aftermath import aftermath, memory_mb
from hookline_faults.fuzzing.campaign import Campaign
from hookline_faults.fuzzing.socket_cases import frames, message
from hookline_faults.fuzzing.socket_storm import SocketStorm
from hookline_faults.fuzzing.watching import watched
from hookline_testing.server_process import Server, serving


def fuzz_sockets(count: int, seed_of_all: int) -> Campaign:
    """Sends this many cases to the sockets of one server with a real engine."""
    source = random.Random(seed_of_all)  # noqa: S311 - to be repeated
    p2p, replay = free_port(), free_port()
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(*_options(p2p, f"ipc://{folder}/events", replay)) as server,
    ):
        server.post("/v1/completions", {"model": "demo", "prompt": [1, 2]})
        before_mb, storm = memory_mb(server), SocketStorm()
        with watched(server) as seen:
            for name, address in sorted(engine_sockets(server).items()):
                _fuzz_engine(storm, name, address, count // 4, source)
            for name, address, kind in (
                ("p2p", f"tcp://127.0.0.1:{p2p}", zmq.DEALER),
                ("KV events", f"ipc://{folder}/events", zmq.SUB),
                ("KV events, replay", f"tcp://127.0.0.1:{replay}", zmq.DEALER),
            ):
                storm.send_lines(name, address, count // 12, source)
                if kind != zmq.SUB:
                    storm.send_messages(
                        name,
                        address,
                        count // 8,
                        kind=kind,
                        make=partial(message, source),
                    )
        return Campaign("sockets", storm, seen, before_mb, aftermath(server))


def engine_sockets(server: Server) -> dict[str, str]:
    """Returns the addresses of the sockets between a front end and its engine."""
    command = Path(f"/proc/{server.engine_pid}/cmdline").read_bytes().split(b"\0")
    folders = [Path(each.decode()) for each in command if b"/hookline-" in each]
    found: Iterable[Path] = folders[0].glob("*.ipc")
    return {f"socket of {path.stem}": f"ipc://{path}" for path in found}


def _fuzz_engine(
    storm: SocketStorm, name: str, address: str, count: int, source: random.Random
) -> None:
    storm.send_lines(name, address, count // 2, source)
    storm.send_messages(
        name,
        address,
        count - count // 2,
        kind=zmq.PUSH,
        make=lambda: [frames(source, SCHEMA_VERSION)],
    )


def _options(p2p: int, events: str, replay: int) -> Iterable[str]:
    transfer = {
        "kv_connector": "p2p",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"port": p2p},
    }
    published = {
        "enable_kv_cache_events": True,
        "endpoint": events,
        "replay_endpoint": f"tcp://127.0.0.1:{replay}",
    }
    return (
        *("--model", "demo", "--num-kv-blocks", "256", "--threads", "1"),
        *("--log-level", "warning", "--port", "0"),
        *("--kv-transfer-config", json.dumps(transfer)),
        *("--kv-events-config", json.dumps(published)),
    )
