"""Starts an engine process and gives it the secret of its messages."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hookline.config.engine import EngineConfig
from hookline.config.sections import ConfigSection
from hookline_process_engine.mailbox import make_key
from hookline_processes.supervised import Supervised

MODULE = "hookline_process_engine.engine_process"


class LaunchedEngine(Supervised):
    """An engine process that this process owns.

    Attributes:
        key: The secret of the messages from and to this process.
    """

    def __init__(
        self,
        folder: Path,
        engine_index: int,
        owner_index: int,
        *,
        module: str = MODULE,
        arguments: Sequence[object] = (),
        pass_fds: Sequence[int] = (),
    ) -> None:
        """Starts the process.

        Args:
            folder: Folder of the sockets.
            engine_index: Index of the engine.
            owner_index: Index of the client that owns it.
            module: What the process runs.
            arguments: Its arguments after these three.
            pass_fds: Descriptors that it inherits under the same numbers.
        """
        super().__init__(
            module,
            (folder, engine_index, owner_index, *arguments),
            name=f"engine {engine_index}",
            pass_fds=pass_fds,
        )
        self.key = make_key()
        # The channel, unlike arguments and environment, is not shown by /proc.
        self.send_bytes(self.key)


def config_of_process(config: EngineConfig, number: int) -> EngineConfig:
    """Returns the configuration of an engine's n-th process."""
    sections = {
        name: found.of_process(number) if isinstance(found, ConfigSection) else found
        for name, found in config.sections.items()
    }
    return replace(config, sections=sections)
