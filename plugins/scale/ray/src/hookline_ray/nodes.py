"""The front end's side of the Ray driver process; the backend `ray`."""

import os
import queue
import threading
from contextlib import suppress

import msgspec

from hookline.config import Device, EngineConfig
from hookline.exceptions import ConfigError, EngineDeadError
from hookline.framed_pipes import framed, read_frame
from hookline.frozen import plain
from hookline.owned_process import OwnedProcess
from hookline.transport.engine_nodes import NodeEnded
from hookline_ray.messages import (
    Ended,
    NotOpened,
    Open,
    Opened,
    Start,
    Stop,
    ToDriver,
    ToFrontEnd,
)

_MODULE = "hookline_ray.driver_process"
_ADDRESS_VARIABLE = "RAY_ADDRESS"
_OPENING_SECONDS = 60.0
"""Ray gives up earlier."""
_GRACE_SECONDS = 10.0
_BACKEND = "data-parallel-backend"
_DRIVER_ENDED = "its Ray actor ended with the Ray driver process"


def open_nodes(config: EngineConfig) -> "RayNodes":
    """Connects to the configured cluster, or starts one on this machine.

    Raises:
        ConfigError: An option does not fit.
        EngineDeadError: The cluster cannot be reached.
    """
    machines = config.machines
    if config.executor.device is Device.CUDA:
        raise ConfigError(_BACKEND, "ray places engines by CPUs, not on device cuda")
    address = machines.ray_address or os.environ.get(_ADDRESS_VARIABLE) or None
    if address is not None and "://" in address:
        raise ConfigError(
            "ray-address",
            f"{address} is an address of Ray's client: run the server on a node of the "
            "cluster, and name its host and port, or auto",
        )
    threads = config.executor.threads or 1
    engines = tuple(config.remote_indices)
    cpus = threads * config.parallel.world_size
    return RayNodes(Open(address, engines, cpus, machines.join_timeout))


class RayNodes:
    """The actors of engines, as `EngineNodes`; Ray itself is in another process."""

    def __init__(self, opening: Open) -> None:
        """Starts the driver process and waits until it is connected."""
        self._opening = opening
        self._launch = 0
        self._running: dict[int, int] = {}
        self._events: queue.SimpleQueue[ToFrontEnd | None] = queue.SimpleQueue()
        self._driver = self._start_driver()
        try:
            self.address = self._opened()
        except BaseException:
            self.close()
            raise

    def start(self, config: EngineConfig, secret: bytes) -> None:
        if self._driver.end_reason is not None:
            self._driver.ask_to_end()  # closes its pipe
            self._driver = self._start_driver()
        self._launch += 1
        self._running[config.engine_index] = self._launch
        self._tell(Start(self._launch, config, secret))

    def stop(self, engine_index: int) -> None:
        if self._running.pop(engine_index, None) is not None:
            self._tell(Stop(engine_index))

    def release(self, engine_index: int) -> None:
        self._running.pop(engine_index, None)
        self._tell(Stop(engine_index, gives_back=True))

    def take_end(self) -> NodeEnded | None:
        while not self._events.empty():
            event = self._events.get()
            if isinstance(event, Ended) and self._is_current(event):
                del self._running[event.engine_index]
                return NodeEnded(event.engine_index, event.reason)
        if self._running and self._driver.end_reason is not None:
            index, _ = self._running.popitem()
            return NodeEnded(index, f"{_DRIVER_ENDED}: {self._driver.end_reason}")
        return None

    def close(self) -> None:
        self._running.clear()
        self._driver.ask_to_end()
        self._driver.end(_GRACE_SECONDS)

    def _is_current(self, event: Ended) -> bool:
        return self._running.get(event.engine_index) == event.launch

    def _opened(self) -> str:
        with suppress(queue.Empty):
            event = self._events.get(timeout=_OPENING_SECONDS)
            if isinstance(event, Opened):
                return event.address
            if isinstance(event, NotOpened):
                raise EngineDeadError(f"{self._cluster} cannot be used: {event.reason}")
            self._driver.end(_GRACE_SECONDS)
            reason = self._driver.end_reason
            raise EngineDeadError(f"the Ray driver process has ended: {reason}")
        raise EngineDeadError(
            f"{self._cluster} did not answer within {_OPENING_SECONDS:g} s"
        )

    @property
    def _cluster(self) -> str:
        address = self._opening.address
        return f"the Ray cluster {address}" if address else "a Ray cluster of its own"

    def _start_driver(self) -> OwnedProcess:
        reading, writing = os.pipe()
        process = OwnedProcess(_MODULE, [writing], name="ray", pass_fds=[writing])
        os.close(writing)
        threading.Thread(
            target=self._read_events, args=[reading], name="ray-events", daemon=True
        ).start()
        self._driver = process
        self._tell(self._opening)
        return process

    def _read_events(self, descriptor: int) -> None:
        while data := read_frame(descriptor):
            self._events.put(msgspec.msgpack.decode(data, type=ToFrontEnd))
        os.close(descriptor)
        self._events.put(None)

    def _tell(self, command: ToDriver) -> None:
        # A command is small, and the driver reads it in a thread of its own.
        self._driver.tell(framed(msgspec.msgpack.encode(command, enc_hook=plain)))
