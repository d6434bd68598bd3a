"""The section `simulated` of a configuration."""

from dataclasses import dataclass
from typing import ClassVar

from hookline.config.options import check_options, option
from hookline.config.sections import ConfigSection


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationConfig(ConfigSection):
    """Step-time model of the simulated executor: the sum of these costs, in seconds."""

    key: ClassVar = "simulated"
    group: ClassVar = "executor"

    step_seconds: float = option(
        "Simulated fixed cost of a step.",
        default=0.002,
        flag="simulated-step-seconds",
        metavar="SECONDS",
        minimum=0,
    )
    prefill_token_seconds: float = option(
        "Simulated cost per prompt token.",
        default=0.00002,
        flag="simulated-prefill-token-seconds",
        metavar="SECONDS",
        minimum=0,
    )
    decode_request_seconds: float = option(
        "Simulated cost per decoding request.",
        default=0.0001,
        flag="simulated-decode-request-seconds",
        metavar="SECONDS",
        minimum=0,
    )
    context_token_seconds: float = option(
        "Simulated cost per token of context that attention reads.",
        default=0.0,
        flag="simulated-context-token-seconds",
        metavar="SECONDS",
        minimum=0,
    )
    draft_token_seconds: float = option(
        "Simulated cost per verified draft token.",
        default=0.0,
        flag="simulated-draft-token-seconds",
        metavar="SECONDS",
        minimum=0,
    )

    adapter_rank_seconds: float = option(
        "Simulated time to load an adapter, per rank of its products.",
        default=0.002,
        flag="simulated-adapter-rank-seconds",
        metavar="SECONDS",
        minimum=0,
    )
    adapter_token_seconds: float = option(
        "Simulated cost per token with an adapter, and per rank of its products.",
        default=0.000001,
        flag="simulated-adapter-token-seconds",
        metavar="SECONDS",
        minimum=0,
    )

    def __post_init__(self) -> None:
        check_options(self)
