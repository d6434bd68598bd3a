"""Starts an engine process and gives it the secret of its messages."""

from pathlib import Path

from hookline.owned_process import OwnedProcess
from hookline.transport.mailbox import make_key

_MODULE = "hookline.transport.engine_process"


class LaunchedEngine(OwnedProcess):
    """An engine process that this process owns.

    Attributes:
        key: The secret of the messages from and to this process.
    """

    def __init__(self, folder: Path, engine_index: int, owner_index: int) -> None:
        name = f"engine {engine_index}"
        super().__init__(_MODULE, (folder, engine_index, owner_index), name=name)
        self.key = make_key()
        # The pipe, unlike arguments and environment, is not shown by /proc.
        self.tell(self.key)
