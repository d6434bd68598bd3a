"""What an executor is built from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hookline.clock import Clock
from hookline.startup_timer import StartupTimer

if TYPE_CHECKING:  # it needs torch, which is imported once an executor is chosen
    from hookline.config.engine import EngineConfig
    from hookline.worker.rank_context import RankContext

MakeRanks = Callable[["EngineConfig"], "RankContext"]
"""Makes the context of one rank; may raise `KernelError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorContext:
    """Everything an executor is built from.

    Attributes:
        config: The engine's whole configuration.
        clock: The engine's clock.
        timer: Measures the phases of the start.
        extensions: The engine's extensions, by their names.
        make_ranks: Makes what the engine's only rank has of those of other engines,
            once torch is imported; None if it needs none of them.
    """

    config: "EngineConfig"
    clock: Clock
    timer: StartupTimer
    extensions: Mapping[str, object] = field(default_factory=dict)
    make_ranks: MakeRanks | None = None
