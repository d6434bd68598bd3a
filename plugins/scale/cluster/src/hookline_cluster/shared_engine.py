"""Starts the process of one of several engines."""

from pathlib import Path

import msgspec

from hookline_process_engine.launched_engine import LaunchedEngine
from hookline_ranks.experts.links import ExpertLinks

MODULE = "hookline_cluster.engine_process"


class SharedEngine(LaunchedEngine):
    """An engine process to which several clients, and other engines, are linked."""

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
        super().__init__(
            folder,
            engine_index,
            owner_index,
            module=MODULE,
            arguments=(msgspec.json.encode(experts).decode(),),
            pass_fds=() if experts is None else experts.descriptors,
        )
