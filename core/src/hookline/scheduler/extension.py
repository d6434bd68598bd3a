"""The scheduler's side of an extension, and its calls, which are resolved once.

An extension overrides the methods that it needs. The others are not called, so that an
absent extension, or a method that it leaves out, costs a step nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, TypeVar, runtime_checkable

from hookline.finish_cause import FinishCause
from hookline.frozen import EMPTY
from hookline.payloads import EngineFacts
from hookline.request import Request
from hookline.scheduler.plan_builder import PlanBuilder
from hookline.scheduler.readiness import ReadinessGate
from hookline.sections import NO_SECTIONS, Sections

T = TypeVar("T")


class SchedulerPort(Protocol):
    """What the scheduler does for one extension. For the engine's thread."""

    def complete(
        self, request_id: int, cause: FinishCause, output: object, now: int
    ) -> None:
        """Ends a request whose result is there, and gives `output` to its client.

        Does nothing if it has ended meanwhile. If KV that it was computed with turned
        out to be wrong, it is computed again instead.
        """

    def report(self, statistics: object) -> None:
        """Replaces the extension's section of `SchedulerStats`."""

    def news(self, make: Callable[[], T]) -> T:
        """Returns the extension's section of the next output, made if there is none."""


class SchedulerSide:
    """An extension's side in the scheduler. All runs on the engine's thread.

    Nothing here may block or raise: it would end the engine.

    Attributes:
        gate: What requests may have to wait for; None if for nothing.
    """

    gate: ReadinessGate | None = None

    def describe(self, facts: EngineFacts) -> EngineFacts:
        """Returns an engine's facts with what the extension tells of itself.

        A section that is a `PreparingFacts` decides about requests in the front end.
        """
        return facts

    def start(self, port: SchedulerPort) -> None:
        """The scheduler is there; called once, before any request."""

    def plan(self, builder: PlanBuilder) -> object | None:
        """Adds to a plan that has its requests; returns its section of the plan.

        Called for each step with requests, and for polls of transfers, whose plans have
        no entries.
        """

    def update(self, section: object, now: int) -> object | None:
        """Takes the extension's section of a step's result.

        Called only if there is one, and before the step's tokens are given out.

        Returns:
            Its section of the step's record, for observers; None without one.
        """

    def finished(self, request: Request, now: int) -> object | None:
        """A request ends and still has its blocks; returns a section for its client."""

    def close(self) -> None:
        """The engine ends, after its last request."""


@runtime_checkable
class SchedulerExtension(Protocol):
    """An extension that has a side in the scheduler."""

    def scheduler_side(self) -> SchedulerSide:
        """Makes the side; called once, in the engine's process."""


def scheduler_sides(extensions: Mapping[str, object]) -> dict[str, SchedulerSide]:
    """Makes the sides of those extensions that have one, by their names."""
    return {
        name: each.scheduler_side()
        for name, each in extensions.items()
        if isinstance(each, SchedulerExtension)
    }


Plan = Callable[[PlanBuilder], object | None]
Update = Callable[[object, int], object | None]
Finish = Callable[[Request, int], object | None]


class SchedulerExtensions:
    """The scheduler's sides of all extensions, by their names.

    Attributes:
        sides: The sides.
        gates: What requests have to pass.
        plans: Methods to call for each plan.
        updates: Methods to call for sections of results.
        finishes: Methods to call for each request that ends.
        statistics: Sections of `SchedulerStats`; replaced, never changed.
        news: Sections of the next output.
    """

    def __init__(
        self,
        sides: Mapping[str, SchedulerSide] = EMPTY,
        gates: Sequence[ReadinessGate] = (),
    ) -> None:
        """Resolves what to call.

        Args:
            sides: The sides.
            gates: Further gates, which come first.
        """
        self.sides = sides
        own = (side.gate for side in sides.values())
        self.gates = [*gates, *(gate for gate in own if gate is not None)]
        self.plans: list[tuple[str, Plan]] = []
        self.updates: dict[str, Update] = {}
        self.finishes: list[tuple[str, Finish]] = []
        self.statistics: Sections = NO_SECTIONS
        self.news: dict[str, object] = {}
        for name, side in sides.items():
            kind = type(side)
            if kind.plan is not SchedulerSide.plan:
                self.plans.append((name, side.plan))
            if kind.update is not SchedulerSide.update:
                self.updates[name] = side.update
            if kind.finished is not SchedulerSide.finished:
                self.finishes.append((name, side.finished))

    def described(self, facts: EngineFacts) -> EngineFacts:
        """Returns an engine's facts with what extensions tell of themselves."""
        for side in self.sides.values():
            facts = side.describe(facts)
        return facts

    def planned(self, builder: PlanBuilder) -> Sections:
        """Returns the sections of a plan."""
        found = ((name, plan(builder)) for name, plan in self.plans)
        return {name: section for name, section in found if section is not None}

    def updated(self, sections: Sections, now: int) -> Sections:
        """Hands out the sections of a result; returns those of its record."""
        told = {}
        for name, section in sections.items():
            if (update := self.updates.get(name)) is not None:
                told[name] = update(section, now)
        found = {name: each for name, each in told.items() if each is not None}
        return MappingProxyType(found) if found else NO_SECTIONS

    def finished(self, request: Request, now: int) -> Sections:
        """Returns the sections for the client of a request that ends."""
        found = ((name, finish(request, now)) for name, finish in self.finishes)
        return {name: section for name, section in found if section is not None}

    def report(self, name: str, statistics: object) -> None:
        """Replaces an extension's section of the state."""
        self.statistics = MappingProxyType({**self.statistics, name: statistics})

    def take_news(self) -> dict[str, object]:
        """Returns the sections of an output; the next ones come with the next."""
        news, self.news = self.news, {}
        return news

    def close(self) -> None:
        for side in self.sides.values():
            side.close()
