"""The Ray driver: `python -m hookline_ray.driver_process`.

Its arguments are the descriptor to which it writes events, the process id of its
owner, and the descriptor and the level of the log. Commands come through
standard input. Once that closes, the actors and this process end.

Ray has a process of its own, because it ends the process of a driver whose cluster it
has lost, and so that its threads and memory are not the server's or the engine's.
"""

import os
import queue
import signal
import sys
import threading

import msgspec
import ray
from ray.exceptions import RayError

from hookline_processes.frames import framed, read_frame, write_all
from hookline_processes.log_forwarding import forwarding_log
from hookline_ray.driver import Driver
from hookline_ray.messages import FromDriver, NotOpened, Open, Opened, ToDriver

_LOOK_SECONDS = 0.1
_CLOSE_SECONDS = 8.0
_OBJECT_STORE_BYTES = 80_000_000
"""Nearly the least: messages of engines do not go through Ray's object store."""


def main(events: int) -> int:
    """Serves until the owner goes away."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the owner decides when to end
    commands: queue.SimpleQueue[ToDriver | None] = queue.SimpleQueue()
    threading.Thread(target=_read_commands, args=[commands], daemon=True).start()
    opening = commands.get()
    if not isinstance(opening, Open):
        return 0  # the owner has gone already
    try:
        address = _connect(opening.address)
    except (ConnectionError, ValueError, RuntimeError, RayError) as error:
        _send(events, NotOpened(" ".join(str(error).split())))
        return 1
    _send(events, Opened(address))
    driver = Driver(opening)
    try:
        _serve(driver, commands, events)
    finally:
        driver.close()
        ray.shutdown()
    return 0


def _serve(
    driver: Driver, commands: "queue.SimpleQueue[ToDriver | None]", events: int
) -> None:
    while True:
        while not commands.empty():
            command = commands.get()
            if command is None:
                return
            if not isinstance(command, Open):
                driver.carry_out(command)
        for ended in driver.look(_LOOK_SECONDS):
            _send(events, ended)


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


def _read_commands(commands: "queue.SimpleQueue[ToDriver | None]") -> None:
    stdin = sys.stdin.fileno()
    while data := read_frame(stdin):
        commands.put(msgspec.msgpack.decode(data, type=ToDriver))
    commands.put(None)
    # Ray may be waiting for a cluster that is gone.
    threading.Event().wait(_CLOSE_SECONDS)
    os._exit(0)


def _send(events: int, message: FromDriver) -> None:
    write_all(events, framed(msgspec.msgpack.encode(message)))


if __name__ == "__main__":
    events, _, log_end, level = map(int, sys.argv[1:])
    with forwarding_log(log_end, level):
        sys.exit(main(events))
