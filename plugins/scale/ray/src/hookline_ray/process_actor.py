"""The actor that owns the process of an engine or a rank on a node of the cluster."""

import logging
import os
import time
from typing import NamedTuple

import ray

from hookline_processes.supervised import Supervised

_LOOK_SECONDS = 0.1
_GRACE_SECONDS = 2.0


class Program(NamedTuple):
    """What an actor's process runs.

    Attributes:
        module: Name of the module.
        arguments: Its first arguments.
        name: Name of the process in log records, such as `engine 0`.
        message: The message that it is sent.
        folder: Its working directory; empty for that of Ray's workers on the node.
    """

    module: str
    arguments: tuple[int, ...]
    name: str
    message: bytes
    folder: str = ""


class ProcessActor:
    """Starts a process and waits for its end.

    The process ends with the actor. Steps are computed there and not in the actor, so
    that they end in the middle when the connection to whoever wants them is lost.
    """

    def address(self) -> str:
        """Returns the address of this node in the cluster."""
        found: str = ray.util.get_node_ip_address()
        return found

    def run(self, program: Program, level: int) -> str:
        """Runs a program until its process ends.

        Args:
            program: The program.
            level: Level of the log, which goes to the logs of Ray on this node.

        Returns:
            Why the process has ended, in one clause.
        """
        last = _LastError()
        logging.basicConfig(level=level, handlers=[logging.StreamHandler(), last])
        logging.getLogger("hookline").setLevel(level)
        if program.folder:
            os.chdir(program.folder)
        process = Supervised(program.module, program.arguments, name=program.name)
        process.send_bytes(program.message)
        while (reason := process.end_reason) is None:
            time.sleep(_LOOK_SECONDS)
        process.close(_GRACE_SECONDS)
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
