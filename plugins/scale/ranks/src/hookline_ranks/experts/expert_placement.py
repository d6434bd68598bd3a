"""Which experts of a layer each rank has, if experts are whole."""

from dataclasses import dataclass

from transformers import PreTrainedConfig

from hookline.exceptions import ConfigError
from hookline_models.loading.cost import EXPERT_NUMBERS, num_experts_of

OPTION = "enable-expert-parallel"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertPlace:
    """A rank's place among those over which experts are spread.

    Attributes:
        rank: Its index: all ranks of the first engine, then those of the next one.
        size: Number of ranks, of all engines that share the experts.
        engines: Number of these engines.
    """

    rank: int
    size: int
    engines: int = 1

    @property
    def ranks_of_engine(self) -> int:
        """Number of ranks that share the layers of an engine."""
        return self.size // self.engines

    @property
    def engine(self) -> int:
        """Index of the rank's engine."""
        return self.rank // self.ranks_of_engine

    @property
    def tensor_rank(self) -> int:
        """Index of the rank among those of its engine."""
        return self.rank % self.ranks_of_engine


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedExperts:
    """The experts of each layer that one rank has.

    Attributes:
        own: Their indices among all.
        mean: Number of experts of a rank on average.
        engines: Number of engines that share all experts.
    """

    own: range
    mean: float
    engines: int = 1


def set_num_experts(config: PreTrainedConfig, number: int) -> None:
    """Changes the number of experts in a configuration."""
    for name in EXPERT_NUMBERS:
        if hasattr(config, name):
            setattr(config, name, number)


def experts_of_rank(config: PreTrainedConfig, place: ExpertPlace) -> OwnedExperts:
    """Returns the experts that one of several ranks has.

    Neighbouring experts are together. If the ranks cannot have as many each, the first
    ones have one more.

    Raises:
        ConfigError: There are no experts, or fewer than ranks.
    """
    number, rank, size = num_experts_of(config), place.rank, place.size
    if number == 0:
        raise ConfigError(
            OPTION, f"models of type {config.model_type} have no experts to distribute"
        )
    if number < size:
        raise ConfigError(
            OPTION,
            f"{_named(place)}, {size}, exceeds the number of experts, {number}: each "
            "rank needs one at least",
        )
    least, more = divmod(number, size)
    start = rank * least + min(rank, more)
    own = range(start, start + least + (rank < more))
    return OwnedExperts(own=own, mean=number / size, engines=place.engines)


def _named(place: ExpertPlace) -> str:
    """The options that give the number of ranks."""
    if place.engines == 1:
        return "tensor-parallel-size"
    if place.ranks_of_engine == 1:
        return "data-parallel-size"
    return "data-parallel-size times tensor-parallel-size"
