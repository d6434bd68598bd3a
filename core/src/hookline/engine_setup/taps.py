"""What taps are made from, which see what an engine does in its own process."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hookline.events import ClockPair

if TYPE_CHECKING:  # it is only read
    from hookline.config.engine import EngineConfig
    from hookline.payloads import EngineFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class TapContext:
    """What an engine's tap is made from.

    Attributes:
        config: The engine's configuration.
        facts: Its facts at its start.
        clock: Its clocks now.
    """

    config: "EngineConfig"
    facts: "EngineFacts"
    clock: ClockPair
