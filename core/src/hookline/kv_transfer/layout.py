"""Layout of a KV block in bytes, as connectors see it."""

from dataclasses import dataclass
from itertools import accumulate

from hookline.exceptions import HooklineError


@dataclass(frozen=True, slots=True, kw_only=True)
class KVLayout:
    """The KV cache's blocks.

    Attributes:
        fingerprint: Hexadecimal digest of everything besides tokens that a block's
            bytes depend on: weights and configuration of the model (rope settings
            included), dtype, block size, memory layout of K and V, hash algorithm. Only
            engines with equal fingerprints may exchange blocks.
        num_blocks: Number of blocks in the cache.
        block_size: Tokens in a block.
        dtype: Type of K and V.
        block_bytes: Bytes of one block in each layer.
        handshake: Return value of the worker's side's `register_kv_caches`; empty
            before.
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
        """Bytes of one block in all layers."""
        return sum(self.block_bytes)

    @property
    def columns(self) -> list[slice]:
        """Each layer's range of bytes in a block whose layers are concatenated."""
        ends = accumulate(self.block_bytes)
        return [
            slice(end - own, end)
            for own, end in zip(self.block_bytes, ends, strict=True)
        ]


class TransferClosedError(HooklineError):
    """Blocks were accessed for a transfer that has ended or was cancelled.

    Attributes:
        transfer_id: Number of the transfer; None for a read outside a step.
    """

    def __init__(self, transfer_id: int | None) -> None:
        reason = "no step is running" if transfer_id is None else f"{transfer_id} ended"
        super().__init__(f"these blocks are closed: {reason}")
        self.transfer_id = transfer_id
