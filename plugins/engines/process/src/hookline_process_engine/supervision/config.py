"""Configuration of the supervision of engines: when it is stalled or has ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from hookline.config.engine import EngineConfig
from hookline.config.options import check_options, option
from hookline.config.sections import ConfigSection
from hookline.exceptions import ConfigError


class StallPolicy(StrEnum):
    WAIT = "wait"
    ABORT = "abort"
    RESTART = "restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisionConfig(ConfigSection):
    """When a server gives an engine up, and what it does then. Ignored offline."""

    key: ClassVar[str] = "supervision"
    group: ClassVar[str] = "supervision"

    step_timeout: float = option(
        "Time without a step, while requests wait for one, after which the engine "
        "counts as stalled. The first step, which may compile kernels, has ten "
        "times as long. Ignored offline.",
        default=60.0,
        metavar="SECONDS",
        above=0,
    )
    on_engine_stall: StallPolicy = option(
        "What happens to the requests of a stalled engine: they wait, they end "
        "with an error, or the engine's process is replaced (requires "
        "--engine-restart). Ignored offline.",
        default=StallPolicy.ABORT,
    )
    engine_restart: int = option(
        "Maximum number of times per hour that an engine process which has ended "
        "is replaced; requests of which the client has got nothing start again, "
        "unless they move to another engine.",
        default=0,
        metavar="COUNT",
        minimum=0,
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.on_engine_stall is StallPolicy.RESTART and not self.engine_restart:
            raise ConfigError("on-engine-stall", "restart requires engine-restart")

    def derived(self, config: EngineConfig) -> Mapping[str, object]:
        """Refuses engines in the front end's process if theirs are to be replaced."""
        del config
        return {"process_option": "engine-restart"} if self.engine_restart else {}
