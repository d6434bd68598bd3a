"""Data-parallel backend `sample`: starts engines that join the head node.

This one has them on this machine; put a job scheduler's calls in its place.
"""

from hookline import hookimpl
from hookline.config.engine import EngineConfig
from hookline_cluster.machines.engine_nodes import NodeEnded
from hookline_cluster.machines.enlistment import Enlistment
from hookline_processes.supervised import Supervised

PROGRAM = "hookline_cluster.machines.remote_engine_process"
GRACE_SECONDS = 2.0


class SampleNodes:
    """The processes of engines, by their indices; for one thread.

    Attributes:
        address: This machine's address, as the others reach it.
    """

    def __init__(self) -> None:
        self.address = "127.0.0.1"
        self._running: dict[int, Supervised] = {}

    def start(self, config: EngineConfig, secret: bytes) -> None:
        """Starts an engine's process, and tells it how to join; does not wait."""
        index = config.engine_index
        process = Supervised(PROGRAM, (index,), name=f"engine {index}")
        process.send_bytes(Enlistment(config, secret).packed())
        self._running[index] = process

    def stop(self, engine_index: int) -> None:
        """Ends an engine's process, if it has one."""
        if (process := self._running.pop(engine_index, None)) is not None:
            process.close(GRACE_SECONDS)

    def release(self, engine_index: int) -> None:
        """Has no places to give back."""
        self.stop(engine_index)

    def take_end(self) -> NodeEnded | None:
        """Returns the end of a process that was not stopped, once."""
        for index, process in list(self._running.items()):
            if process.exit_code is not None:
                reason = process.end_reason or "it has ended"
                self.stop(index)
                return NodeEnded(index, reason)
        return None

    def close(self) -> None:
        """Ends all processes; may be called twice."""
        for index in list(self._running):
            self.stop(index)


@hookimpl
def open_engine_nodes(context: EngineConfig) -> SampleNodes:
    """Connects to the machines; raises `ConfigError` if an option does not fit."""
    del context
    return SampleNodes()
