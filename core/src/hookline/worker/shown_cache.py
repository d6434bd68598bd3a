"""A KV cache as an extension sees it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # needs torch, which an executor without a model does not
    import numpy as np
    import numpy.typing as npt
    import torch


class BlockMemory(Protocol):
    """The memory of a KV cache."""

    def sides(self) -> "Sequence[Sequence[torch.Tensor | npt.NDArray[np.int64]]]":
        """Returns the arrays that own each layer's memory, such as keys and values.

        Their first dimension is the block; each block is contiguous.
        """

    def call_around(
        self, before: Callable[[int], None], after: Callable[[int], None]
    ) -> None:
        """Calls both with each layer's index, before and after its attention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCache:
    """A KV cache, before any step is computed with it.

    Attributes:
        memory: Its memory.
        num_blocks: Number of blocks in it.
        dtype: Type of keys and values.
        content: Everything that keys and values depend on besides tokens, block size
            and hashes: the model, and the memory layout.
    """

    memory: BlockMemory
    num_blocks: int
    dtype: str
    content: bytes
