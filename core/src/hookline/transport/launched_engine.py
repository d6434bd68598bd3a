"""Starts an engine process and gives it the secret of its messages."""

from dataclasses import replace
from pathlib import Path

import msgspec

from hookline.config import EngineConfig
from hookline.owned_process import OwnedProcess
from hookline.transport.mailbox import make_key
from hookline.worker.experts.links import ExpertLinks

_MODULE = "hookline.transport.engine_process"


class LaunchedEngine(OwnedProcess):
    """An engine process that this process owns.

    Attributes:
        key: The secret of the messages from and to this process.
    """

    def __init__(
        self,
        folder: Path,
        engine_index: int,
        owner_index: int,
        experts: ExpertLinks | None = None,
    ) -> None:
        """Starts the process.

        Args:
            folder: Folder of the sockets.
            engine_index: Index of the engine.
            owner_index: Index of the client that owns it.
            experts: Links to engines that share its experts; None without any.
        """
        links = msgspec.json.encode(experts).decode()
        super().__init__(
            _MODULE,
            (folder, engine_index, owner_index, links),
            name=f"engine {engine_index}",
            pass_fds=() if experts is None else experts.descriptors,
        )
        self.key = make_key()
        # The pipe, unlike arguments and environment, is not shown by /proc.
        self.tell(self.key)


def config_of_process(config: EngineConfig, number: int) -> EngineConfig:
    """Returns the configuration of an engine's n-th process.

    Each records to its own file, so that the recording of a crash is not overwritten.
    """
    record = config.observers.record
    if record is None:
        return config
    observers = replace(config.observers, record=f"{record}.{number}")
    return replace(config, observers=observers)
