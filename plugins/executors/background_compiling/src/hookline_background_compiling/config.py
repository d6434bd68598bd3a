"""The section `background_compiling` of a configuration."""

from dataclasses import dataclass
from typing import ClassVar

from hookline.config.options import check_options, option
from hookline.config.sections import ConfigSection


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundCompilingConfig(ConfigSection):
    """Whether an engine serves before its kernels are compiled."""

    key: ClassVar = "background_compiling"
    group: ClassVar = "executor"
    is_of_machine: ClassVar = True

    serve_while_compiling: bool = option(
        "Serve with the torch reference while kernels that this machine has not "
        "compiled yet are compiled in the background; otherwise the engine is "
        "ready when they are. CPU only, with the engine in its own process, "
        "without speculative decoding and KV connectors.",
        default=True,
    )

    def __post_init__(self) -> None:
        check_options(self)
