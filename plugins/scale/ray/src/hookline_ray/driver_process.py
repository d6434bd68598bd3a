"""The Ray driver: `python -m hookline_ray.driver_process`.

Commands come from its owner, and events go there. Once the owner has gone, the actors
and this process end.

Ray has a process of its own, because it ends the process of a driver whose cluster it
has lost, and so that its threads and memory are not the server's or the engine's.
"""

import os
import queue
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import ray
from ray.exceptions import RayError

from hookline_processes.owner import Owner, run_supervised
from hookline_ray.driver import Driver
from hookline_ray.messages import FromDriver, NotOpened, Open, Opened, ToDriver

_LOOK_SECONDS = 0.1
_CLOSE_SECONDS = 8.0
_OBJECT_STORE_BYTES = 80_000_000
"""Nearly the least: messages of engines do not go through Ray's object store."""


def main(owner: Owner, _: Sequence[str]) -> int:
    """Serves until the owner goes away."""
    commands: queue.SimpleQueue[ToDriver | None] = queue.SimpleQueue()
    threading.Thread(
        target=_receive_commands, args=[owner, commands], daemon=True
    ).start()
    opening = commands.get()
    if not isinstance(opening, Open):
        return 0  # the owner has gone already
    # Ray has its workers import from where its driver runs; on a cluster of this
    # machine they run there, too, since a model can be named relative to it.
    folder = "" if opening.address is not None else str(Path.cwd())
    os.chdir("/")
    try:
        address = _connect(opening.address)
    except (ConnectionError, ValueError, RuntimeError, RayError) as error:
        _send(owner, NotOpened(" ".join(str(error).split())))
        return 1
    _send(owner, Opened(address))
    driver = Driver(opening, folder)
    try:
        _serve(driver, commands, owner)
    finally:
        driver.close()
        ray.shutdown()
    return 0


def _serve(
    driver: Driver, commands: "queue.SimpleQueue[ToDriver | None]", owner: Owner
) -> None:
    while True:
        while not commands.empty():
            command = commands.get()
            if command is None:
                return
            if not isinstance(command, Open):
                driver.carry_out(command)
        for ended in driver.look(_LOOK_SECONDS):
            _send(owner, ended)


def _connect(address: str | None) -> str:
    """Connects to a cluster or starts one; returns this machine's address there."""
    quiet = {"log_to_driver": False, "configure_logging": False}
    if address is not None:
        ray.init(address=address, **quiet)
    else:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(
            address="local",
            include_dashboard=False,
            object_store_memory=_OBJECT_STORE_BYTES,
            **quiet,
        )
    found: str = ray.util.get_node_ip_address()
    return found


def _receive_commands(
    owner: Owner, commands: "queue.SimpleQueue[ToDriver | None]"
) -> None:
    while (data := owner.receive_bytes()) is not None:
        commands.put(msgspec.msgpack.decode(data, type=ToDriver))
    commands.put(None)
    # Ray may be waiting for a cluster that is gone.
    threading.Event().wait(_CLOSE_SECONDS)
    os._exit(0)


def _send(owner: Owner, message: FromDriver) -> None:
    owner.send_bytes(msgspec.msgpack.encode(message))


if __name__ == "__main__":
    sys.exit(run_supervised(main))
