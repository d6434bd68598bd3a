"""Configuration of the supervision of engines: when it is stalled."""

from dataclasses import dataclass, field
from enum import StrEnum

from hookline.config.option_fields import check_options
from hookline.config.options import option


class StallPolicy(StrEnum):
    WAIT = "wait"
    ABORT = "abort"


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisionConfig:
    """When a server gives an engine up, and what it does then. Ignored offline."""

    step_timeout: float = field(
        default=60.0,
        metadata=option(
            "Time without a step, while requests wait for one, after which the engine "
            "counts as stalled. The first step, which may compile kernels, has ten "
            "times as long. Ignored offline.",
            metavar="SECONDS",
            above=0,
        ),
    )
    on_engine_stall: StallPolicy = field(
        default=StallPolicy.ABORT,
        metadata=option(
            "What happens to the requests of a stalled engine: they wait, or they end "
            "with an error. Ignored offline."
        ),
    )

    def __post_init__(self) -> None:
        check_options(self)
