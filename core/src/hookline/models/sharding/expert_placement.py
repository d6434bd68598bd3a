"""Which experts of a layer each rank has, if experts are whole."""

from dataclasses import dataclass

from transformers import PreTrainedConfig

from hookline.exceptions import ConfigError

OPTION = "enable-expert-parallel"
_NUMBERS = ("num_experts", "num_local_experts", "n_routed_experts")
"""Names that families give to the number of experts; some have two of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedExperts:
    """The experts of each layer that one rank has.

    Attributes:
        own: Their indices among all.
        mean: Number of experts of a rank on average.
    """

    own: range
    mean: float


def num_experts_of(config: PreTrainedConfig) -> int:
    """Returns the number of experts among which a layer chooses; 0 without any."""
    found = (getattr(config, name, None) for name in _NUMBERS)
    return next((value for value in found if isinstance(value, int)), 0)


def set_num_experts(config: PreTrainedConfig, number: int) -> None:
    """Changes the number of experts in a configuration."""
    for name in _NUMBERS:
        if hasattr(config, name):
            setattr(config, name, number)


def experts_of_rank(config: PreTrainedConfig, *, rank: int, size: int) -> OwnedExperts:
    """Returns the experts that one of several ranks has.

    Neighbouring experts are together. If the ranks cannot have as many each, the first
    ones have one more.

    Raises:
        ConfigError: There are no experts, or fewer than ranks.
    """
    number = num_experts_of(config)
    if number == 0:
        raise ConfigError(
            OPTION, f"models of type {config.model_type} have no experts to distribute"
        )
    if number < size:
        raise ConfigError(
            OPTION,
            f"tensor-parallel-size, {size}, exceeds the number of experts, {number}: "
            "each rank needs one at least",
        )
    least, more = divmod(number, size)
    start = rank * least + min(rank, more)
    own = range(start, start + least + (rank < more))
    return OwnedExperts(own=own, mean=number / size)
