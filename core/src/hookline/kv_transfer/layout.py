"""What a block of the KV cache is to a connector: so many bytes in each layer."""

from dataclasses import dataclass
from itertools import accumulate

from hookline.exceptions import HooklineError


@dataclass(frozen=True, slots=True, kw_only=True)
class KVLayout:
    """What blocks mean, and how large they are.

    Attributes:
        fingerprint: Hexadecimal digits of all that a block's bytes depend on besides
            its tokens: the model's weights and configuration (rope settings included),
            dtype, block size, how K and V lie in memory, the hash algorithm. Blocks may
            be exchanged between engines with the same one, and no others.
        num_blocks: In the cache.
        block_size: Tokens a block.
        dtype: Of K and V.
        block_bytes: Of one block, in each layer.
        handshake: What the worker's side of the connector told when it was shown the
            blocks; empty until then.
    """

    fingerprint: str
    num_blocks: int
    block_size: int
    dtype: str
    block_bytes: tuple[int, ...]
    handshake: bytes = b""

    @property
    def num_layers(self) -> int:
        return len(self.block_bytes)

    @property
    def total_bytes(self) -> int:
        """Of one block, in all layers."""
        return sum(self.block_bytes)

    @property
    def columns(self) -> list[slice]:
        """Where each layer's bytes are, if those of a block lie together."""
        ends = accumulate(self.block_bytes)
        return [
            slice(end - own, end)
            for own, end in zip(self.block_bytes, ends, strict=True)
        ]


class TransferClosedError(HooklineError):
    """Blocks were touched for a transfer that has ended, or was given up.

    Attributes:
        transfer_id: Which; None for a read outside a step.
    """

    def __init__(self, transfer_id: int | None) -> None:
        told = "no step is under way" if transfer_id is None else f"{transfer_id} ended"
        super().__init__(f"these blocks are closed: {told}")
        self.transfer_id = transfer_id
