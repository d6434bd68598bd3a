"""The adapters of all engines, as one front end knows them."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hookline.engine.commands import TellExtensions, Told
from hookline_lora.adapter import AdapterRef
from hookline_lora.messages import (
    ANSWER,
    AdapterState,
    ListAdapters,
    LoraAnswer,
    LoraCommand,
)
from hookline_metrics.adapters import LORA
from hookline_server.adapters import Ask


@dataclass(slots=True)
class KnownEngines:
    """What each engine has answered last.

    Attributes:
        answers: By the engine's `boot`.
        read_at: When all were asked, in seconds on the monotonic clock.
    """

    answers: dict[str, LoraAnswer] = field(default_factory=dict)
    read_at: float = float("-inf")

    async def refresh(self, ask: Ask) -> None:
        """Asks all engines what has changed.

        Raises:
            HooklineError: As `Ask`.
        """
        known = self.versions
        found = {each.boot: each for each in await tell(ask, ListAdapters(known))}
        self.answers = {
            boot: self.answers[boot] if known.get(boot) == each.version else each
            for boot, each in found.items()
        }
        self.read_at = time.monotonic()

    def is_older(self, seconds: float) -> bool:
        """Whether the engines were asked last before that many seconds."""
        return time.monotonic() - self.read_at > seconds

    @property
    def versions(self) -> dict[str, int]:
        """What each engine has answered last, by its `boot`."""
        return {boot: each.version for boot, each in self.answers.items()}

    @property
    def refs(self) -> dict[str, AdapterRef]:
        """The adapters that new requests may use in any engine, by name."""
        return {
            name: state.ref for name, state in self.states() if not state.is_leaving
        }

    def states(self) -> Iterable[tuple[str, AdapterState]]:
        """Yields the name and the state of each adapter in each engine."""
        for answer in self.answers.values():
            yield from answer.adapters.items()

    def having(self, name: str) -> set[str]:
        """Returns the `boot` of each engine whose new requests may use an adapter."""
        return {
            boot
            for boot, answer in self.answers.items()
            if name in answer.adapters and not answer.adapters[name].is_leaving
        }

    def missing(self, refs: Mapping[str, AdapterRef]) -> list[AdapterRef]:
        """Returns those of some adapters that an engine does not have."""
        return [
            ref
            for name, ref in refs.items()
            if any(
                name not in each.adapters
                or each.adapters[name].ref.digest != ref.digest
                for each in self.answers.values()
            )
        ]


async def tell(ask: Ask, command: LoraCommand) -> Sequence[LoraAnswer]:
    """Returns the answers of all engines to a command.

    Raises:
        HooklineError: As `Ask`.
    """
    told: tuple[Told, ...] = await ask(TellExtensions({LORA: command}))
    answers = [ANSWER.read(each.sections) for each in told]
    return [each for each in answers if each is not None]
