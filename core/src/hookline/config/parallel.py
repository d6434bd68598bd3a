"""Parallel sizes of an engine."""

from dataclasses import dataclass

from hookline.config.options import check_options, option
from hookline.exceptions import ConfigError

MOST_RANKS = 64
"""That share a layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelConfig:
    """Number of ranks in each dimension.

    Attributes:
        rank: Index of this process among those that share the model's weights.
        ranks_here: Number of them that divide this machine; None for all.
    """

    tensor_parallel_size: int = option(
        "Number of ranks that share each layer, each a process with a part of its "
        "weights and of its KV cache. More than 1 only on CPUs.",
        default=1,
        metavar="RANKS",
        minimum=1,
        maximum=MOST_RANKS,
    )
    enable_expert_parallel: bool = option(
        "Spread each layer's experts, whole, over all ranks of all engines, "
        "instead of dividing or repeating every expert. Several engines then "
        "compute their steps together. Requires --data-parallel-size or "
        "--tensor-parallel-size of at least 2.",
        default=False,
    )
    pipeline_parallel_size: int = option(
        "Number of pipeline stages, each a rank with a part of the layers; several "
        "batches are computed at the same time, one by each stage.",
        default=1,
        metavar="STAGES",
        minimum=1,
    )
    rank: int = 0
    ranks_here: int | None = None

    def __post_init__(self) -> None:
        check_options(self)
        if not 0 <= self.rank < self.world_size:
            raise ConfigError(
                "rank", f"must be 0 to {self.world_size - 1}, not {self.rank}"
            )

    @property
    def world_size(self) -> int:
        """Number of ranks that share the model's weights."""
        return self.tensor_parallel_size * self.pipeline_parallel_size

    @property
    def num_here(self) -> int:
        """Number of ranks of an engine that divide this machine."""
        return self.world_size if self.ranks_here is None else self.ranks_here

    @property
    def tensor_rank(self) -> int:
        """Index of this rank among those that share its layers."""
        return self.rank % self.tensor_parallel_size

    @property
    def stage(self) -> int:
        """Index of this rank's pipeline stage."""
        return self.rank // self.tensor_parallel_size

    @property
    def output_rank(self) -> int:
        """The rank that samples and reports: the first of the last stage."""
        return self.world_size - self.tensor_parallel_size
