"""Layout of a KV block in bytes, as connectors see it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Self

from hookline.config.extensions import KV_TRANSFER
from hookline.exceptions import HooklineError
from hookline.sections import Section


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
        ranks: Only for the scheduler's side, and only if several ranks share the model:
            the layouts of all of them, by rank.
    """

    fingerprint: str
    num_blocks: int
    block_size: int
    dtype: str
    block_bytes: tuple[int, ...]
    handshake: bytes = b""
    ranks: "tuple[KVLayout, ...]" = ()

    @classmethod
    def of_ranks(cls, layouts: Sequence[Self]) -> Self:
        """Returns what the scheduler's side gets, from each rank's layout, by rank.

        It is the layout of the rank with the largest blocks: as many blocks as fit a
        number of bytes there fit it on every rank.
        """
        if len(layouts) == 1:
            return layouts[0]
        largest = max(layouts, key=lambda each: each.total_bytes)
        return replace(largest, ranks=tuple(layouts))

    @property
    def num_layers(self) -> int:
        return len(self.block_bytes)

    @property
    def total_bytes(self) -> int:
        """Bytes of one block in all layers."""
        return sum(self.block_bytes)

    @property
    def of_each_rank(self) -> "tuple[KVLayout, ...]":
        """Layouts of all ranks, also if there is one."""
        return self.ranks or (self,)

    @property
    def columns(self) -> list[slice]:
        """Each layer's range of bytes in a block whose layers are concatenated."""
        ends = accumulate(self.block_bytes)
        return [
            slice(end - own, end)
            for own, end in zip(self.block_bytes, ends, strict=True)
        ]


KV_LAYOUT = Section(KV_TRANSFER, KVLayout)
"""A rank's section of the model's shape."""


class TransferClosedError(HooklineError):
    """Blocks were accessed for a transfer that has ended or was cancelled.

    Attributes:
        transfer_id: Number of the transfer; None for a read outside a step.
    """

    def __init__(self, transfer_id: int | None) -> None:
        reason = "no step is running" if transfer_id is None else f"{transfer_id} ended"
        super().__init__(f"these blocks are closed: {reason}")
        self.transfer_id = transfer_id
