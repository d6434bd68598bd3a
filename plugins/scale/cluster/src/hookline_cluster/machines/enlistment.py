"""What an engine of another machine is told when it is started there."""

import msgspec

from hookline.config import EngineConfig
from hookline.frozen import plain
from hookline_processes.owner import Owner


class Enlistment(msgspec.Struct, frozen=True):
    """What the owner of an engine's process tells it.

    Attributes:
        config: This machine's configuration.
        secret: The secret that is shared with the head node.
    """

    config: EngineConfig
    secret: bytes

    def packed(self) -> bytes:
        """Returns it in msgpack."""
        return msgspec.msgpack.encode(self, enc_hook=plain)

    @classmethod
    def receive(cls, owner: Owner) -> "Enlistment | None":
        """Waits for the owner's; None if it has gone."""
        data = owner.receive_bytes()
        return msgspec.msgpack.decode(data, type=cls) if data else None
