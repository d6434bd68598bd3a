"""The actor that owns an engine's process on a node of the cluster."""

import logging
import time

from hookline.owned_process import OwnedProcess

_MODULE = "hookline.transport.remote_engine_process"
_LOOK_SECONDS = 0.1
_GRACE_SECONDS = 2.0


class EngineActor:
    """Starts an engine's process and waits for its end.

    The process ends with the actor, because it holds the other end of a pipe. The
    engine computes there and not in the actor, so that it ends in the middle of a step
    when the head node is lost.
    """

    def run(self, engine_index: int, enlistment: bytes, level: int) -> str:
        """Serves as the engine until its process ends.

        Args:
            engine_index: Index of the engine.
            enlistment: What its process is told.
            level: Level of the log, which goes to the logs of Ray on this node.

        Returns:
            Why the process has ended, in one clause.
        """
        last = _LastError()
        logging.basicConfig(level=level, handlers=[logging.StreamHandler(), last])
        logging.getLogger("hookline").setLevel(level)
        process = OwnedProcess(_MODULE, (engine_index,), name=f"engine {engine_index}")
        process.tell(enlistment)
        while (reason := process.end_reason) is None:
            time.sleep(_LOOK_SECONDS)
        process.end(_GRACE_SECONDS)
        return f"{reason}: {last.message}" if last.message else reason


class _LastError(logging.Handler):
    """Keeps the latest error, which says why the process has ended.

    Attributes:
        message: Its text; empty without one.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.message = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.message = record.getMessage()
