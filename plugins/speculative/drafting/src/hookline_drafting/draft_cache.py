"""The KV cache of a proposer's own layers, as the proposer sees it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # parsing options needs neither
    import numpy as np
    import numpy.typing as npt
    import torch


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive tokens of one sequence that one pass computes.

    Attributes:
        start: Position of the first token.
        count: Number of tokens.
        block_ids: [blocks] int32, the blocks that hold these tokens and all before
            them.
    """

    start: int
    count: int
    block_ids: "npt.NDArray[np.int32]"


class DraftCache(Protocol):
    """Keys and values of a proposer's layers, and attention over them.

    One thread uses it: the proposer's own.

    Attributes:
        max_model_len: Maximum number of tokens in a sequence.
    """

    max_model_len: int

    def with_spare(
        self, block_ids: "npt.NDArray[np.int32]", index: int
    ) -> "npt.NDArray[np.int32]":
        """Returns a request's blocks, followed by spare blocks for its drafts.

        Args:
            block_ids: [blocks] int32, the request's own.
            index: Distinguishes the sequences of a pass; less than `max_num_seqs`.
        """
        ...

    def begin(self, spans: Sequence[Span]) -> "torch.Tensor":
        """Lays out a pass for the calls of `attend` that follow.

        Args:
            spans: The tokens of each sequence; spans of one token come first.

        Returns:
            [T] int64 positions of all tokens.

        Raises:
            ValueError: A span has fewer blocks than its tokens need.
        """
        ...

    def attend(
        self,
        layer: int,
        query: "torch.Tensor",
        key: "torch.Tensor",
        value: "torch.Tensor",
    ) -> "torch.Tensor":
        """Writes a pass's keys and values, then attends: [T, heads, dim] each.

        Scores are divided by the square root of the head's width.
        """
        ...
