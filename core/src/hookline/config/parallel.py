"""Parallel sizes of an engine: tensor, pipeline and data."""

from dataclasses import dataclass, field

from hookline.config.option_fields import check_options
from hookline.config.options import option
from hookline.exceptions import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelConfig:
    """Number of ranks in each dimension; each must be 1 so far.

    Attributes:
        rank: Index of this process among those that share the model's weights.
    """

    tensor_parallel_size: int = field(
        default=1,
        metadata=option(
            "Number of ranks that share each layer; only 1 is supported.",
            metavar="RANKS",
            minimum=1,
        ),
    )
    pipeline_parallel_size: int = field(
        default=1,
        metadata=option(
            "Number of pipeline stages; only 1 is supported.",
            metavar="STAGES",
            minimum=1,
        ),
    )
    data_parallel_size: int = field(
        default=1,
        metadata=option(
            "Number of replicas of the model; only 1 is supported.",
            metavar="REPLICAS",
            minimum=1,
        ),
    )
    rank: int = 0

    def __post_init__(self) -> None:
        check_options(self)
        for name, size in (
            ("tensor-parallel-size", self.tensor_parallel_size),
            ("pipeline-parallel-size", self.pipeline_parallel_size),
            ("data-parallel-size", self.data_parallel_size),
        ):
            if size > 1:
                raise ConfigError(
                    name,
                    f"{size} is not supported: an engine has one rank; the supported "
                    "value is 1",
                )
        if not 0 <= self.rank < self.world_size:
            raise ConfigError(
                "rank", f"must be 0 to {self.world_size - 1}, not {self.rank}"
            )

    @property
    def world_size(self) -> int:
        """Number of ranks that share the model's weights."""
        return self.tensor_parallel_size * self.pipeline_parallel_size
