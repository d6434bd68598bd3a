"""Positions of a step at which tokens are sampled, with the tokens before them."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from hookline.worker.input_batch import InputBatch, Int32, Int64


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledPositions:
    """n positions whose logits one processor changes.

    A request without drafts has one position per step; one with drafts has several,
    and each sees the drafts before it as output.

    Attributes:
        indices: [n] row of the logits tensor for each position.
        rows: [n] batch row of each position's request.
        ends: [n] number of tokens before the sampled one.
        nodes: [n] node of the request's draft tree; None without trees.
        batch: Tokens of all requests.
    """

    indices: Int64
    rows: Int64
    ends: Int64
    nodes: Int64 | None
    batch: InputBatch

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def num_output_tokens(self) -> Int64:
        """[n] number of output tokens before the sampled one."""
        return self.ends - self.batch.num_prompt_tokens[self.rows]

    def tokens(self, at: int) -> Int32:
        """Returns prompt and output before position `at`: [ends[at]]; do not change."""
        node = 0 if self.nodes is None else int(self.nodes[at])
        return self.batch.history(int(self.rows[at]), int(self.ends[at]), node)

    def all_tokens(self) -> Int32:
        """Returns tokens of all positions, [n, max(ends)]; undefined after each end."""
        return self.batch.histories(self.rows, self.ends, self.nodes)

    def select(self, chosen: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Self:
        """Returns the chosen positions, an index or mask array over the n."""
        return replace(
            self,
            indices=self.indices[chosen],
            rows=self.rows[chosen],
            ends=self.ends[chosen],
            nodes=None if self.nodes is None else self.nodes[chosen],
        )

    def slice(self, start: int, end: int) -> Self:
        """Returns adjacent positions, without a copy."""
        return replace(
            self,
            indices=self.indices[start:end],
            rows=self.rows[start:end],
            ends=self.ends[start:end],
            nodes=None if self.nodes is None else self.nodes[start:end],
        )
