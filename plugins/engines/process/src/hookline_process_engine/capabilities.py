"""What a client whose engines have processes can do beyond `EngineClient`."""

from typing import NamedTuple, Protocol

from hookline.transport.engine_client import EngineInfo
from hookline_processes.inspector import ProcessInspector


class EngineReplaced(NamedTuple):
    """A new process of an engine is ready; it knows none of the old one's requests."""

    engine_index: int
    info: EngineInfo


class EngineProcesses(Protocol):
    """The capability of a client whose engines have processes; for any thread."""

    def inspector(self, engine_index: int) -> ProcessInspector | None:
        """Returns a new inspector of the engine's process, if it is on this machine."""
        ...

    def kill(self, engine_index: int, reason: str) -> None:
        """Kills the engine's process; `receive` reports the death with this reason."""
        ...

    def replace(self, engine_index: int, after_seconds: float) -> None:
        """Starts a new process for an engine whose death has been reported.

        `receive` reports its readiness, or another death.
        """
        ...
