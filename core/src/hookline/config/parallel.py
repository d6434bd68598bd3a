"""Parallel sizes of a server, and how requests are placed on its engines."""

from dataclasses import dataclass
from enum import StrEnum

from hookline.config.autoscale import EngineRange, read_engine_range
from hookline.config.options import check_options, option
from hookline.exceptions import ConfigError

MOST_ENGINES = 64
"""Each is a process with the whole model."""
MOST_RANKS = 64
"""That share a layer."""


class LoadBalancing(StrEnum):
    """How an engine is chosen for a request."""

    SCORE = "score"
    ROUND_ROBIN = "round-robin"
    PREFIX = "prefix"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelConfig:
    """Number of ranks in each dimension, and how requests are placed on engines.

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
    data_parallel_size: int = option(
        "Number of engines, each a process with the whole model and its own KV "
        "cache, among which requests are divided. More than 1 only on CPUs.",
        default=1,
        metavar="ENGINES",
        minimum=1,
        maximum=MOST_ENGINES,
    )
    load_balancing: LoadBalancing = option(
        "How an engine is chosen for a request: the one with the least load, one "
        "after another, or the one that has cached most of the prompt unless its "
        "load is far above the least.",
        default=LoadBalancing.SCORE,
    )
    autoscale: EngineRange | None = option(
        "Start and end engines by load, from MIN to MAX of them; MIN unless "
        "data-parallel-size says how many there are at first. They divide cores "
        "and memory as MAX engines do. On CPUs.",
        default=None,
        metavar="MIN:MAX",
        read=read_engine_range,
    )
    autoscale_target: float = option(
        "Saturation (hookline_saturation_ratio) of the mean engine above which "
        "there should be more engines.",
        default=0.7,
        metavar="RATIO",
        above=0,
        maximum=1,
    )
    autoscale_quiet: float = option(
        "Time for which fewer engines must have been enough before some end.",
        default=180.0,
        metavar="SECONDS",
        minimum=0,
    )
    rank: int = 0
    ranks_here: int | None = None

    def __post_init__(self) -> None:
        check_options(self)
        if self.enable_expert_parallel and self.tensor_parallel_size == 1:
            self._check_spread()
        self._check_autoscale()
        if not 0 <= self.rank < self.world_size:
            raise ConfigError(
                "rank", f"must be 0 to {self.world_size - 1}, not {self.rank}"
            )

    def _check_spread(self) -> None:
        if self.data_parallel_size == 1:
            raise ConfigError(
                "enable-expert-parallel",
                "requires tensor-parallel-size or data-parallel-size of at least 2: "
                "experts are spread over the ranks of all engines",
            )

    def _check_autoscale(self) -> None:
        if (limits := self.autoscale) is None:
            return
        if not 1 <= limits.minimum <= limits.maximum <= MOST_ENGINES:
            raise ConfigError(
                "autoscale",
                f"{limits} must be MIN:MAX with 1 <= MIN <= MAX <= {MOST_ENGINES}",
            )
        if not limits.minimum <= self.data_parallel_size <= limits.maximum:
            raise ConfigError(
                "autoscale",
                f"{limits} does not include data-parallel-size, "
                f"{self.data_parallel_size}",
            )

    @property
    def spreads_experts(self) -> bool:
        """Whether several engines share the model's experts."""
        return self.enable_expert_parallel and self.data_parallel_size > 1

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
