"""What an engine of another machine is told when it is started there."""

import msgspec

from hookline.config import EngineConfig
from hookline.frozen import plain
from hookline_processes.frames import framed, read_frame


class Enlistment(msgspec.Struct, frozen=True):
    """What the owner of an engine's process tells it.

    Attributes:
        config: This machine's configuration.
        secret: The secret that is shared with the head node.
    """

    config: EngineConfig
    secret: bytes | None

    def packed(self) -> bytes:
        """Returns it with its length, for a pipe."""
        return framed(msgspec.msgpack.encode(self, enc_hook=plain))

    @classmethod
    def read(cls, descriptor: int) -> "Enlistment | None":
        """Waits for one in a pipe; None at the pipe's end."""
        data = read_frame(descriptor)
        return msgspec.msgpack.decode(data, type=cls) if data else None
