"""The scheduler's side of an extension, and its calls, which are resolved once.

An extension overrides the methods that it needs. The others are not called, so that an
absent extension, or a method that it leaves out, costs a step nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from hookline.engine.scheduler.external_prefix import ExternalPrefix
from hookline.engine.scheduler.plan_builder import PlanBuilder, StepBatches
from hookline.engine.scheduler.queue import TenantQueue
from hookline.engine.scheduler.readiness import ReadinessGate
from hookline.frozen import EMPTY
from hookline.request import Request
from hookline.sections import NO_SECTIONS, Sections, present
from hookline.step import ModelShape

if TYPE_CHECKING:  # one is only read, the other only called
    from hookline.engine.scheduler.extension_port import SchedulerPort
    from hookline.payloads import EngineFacts

T = TypeVar("T")


class SchedulerSide:
    """An extension's side in the scheduler. All runs on the engine's thread.

    Nothing here may block or raise: it would end the engine.

    Attributes:
        gate: What requests may have to wait for; None if for nothing.
        external_prefix: Brings KV of waiting requests; None if it brings none. It is
            read after `start`, and the first one of an engine counts.
        tenants: Takes the place of the waiting queue; None if it has none.
        batches: Divides requests among steps in flight; None if a step takes all.
        sleep_obstacle: Why the engine can never sleep; None if it can.
    """

    gate: ReadinessGate | None = None
    external_prefix: ExternalPrefix | None = None
    tenants: TenantQueue | None = None
    batches: StepBatches | None = None
    sleep_obstacle: str | None = None

    def loaded(self, shape: ModelShape) -> None:
        """The model is loaded; the first call.

        Raises:
            ConfigError: The extension cannot serve such a model.
        """

    def describe(self, facts: "EngineFacts") -> "EngineFacts":
        """Returns an engine's facts with what the extension tells of itself.

        A section that is a `PreparingFacts` decides about requests in the front end.
        """
        return facts

    def start(self, port: "SchedulerPort") -> None:
        """The scheduler is there; called once, before any request."""

    def planning(self, now: int) -> None:
        """A step is about to be planned: requests may be ended or released."""

    def plan(self, builder: PlanBuilder) -> object | None:
        """Adds to a plan that has its requests; returns its section of the plan.

        Called for each step, and for each poll, whose plan has no requests.
        """

    def is_busy(self) -> bool:
        """Returns whether the worker must be polled even if nothing is computed.

        A poll is a step without requests. Its result may have sections.
        """
        return False

    def update(self, section: object, now: int) -> object | None:
        """Takes the extension's section of a step's result.

        Called only if there is one, and before the step's tokens are given out.

        Returns:
            Its section of the step's record, for observers; None without one. A poll
            has no record: anything but None has its output published.
        """

    def statistics(self) -> object | None:
        """Returns its section of `SchedulerStats`, which is asked for in each step.

        An extension that knows when they change reports them by its port instead.
        """

    def news(self) -> object | None:
        """Returns its section of an output that is being made; None without one."""

    def held_blocks(self) -> Iterable[Sequence[int]]:
        """Returns the KV blocks that it references itself, for the audit."""
        return ()

    def finished(self, request: Request, now: int) -> object | None:
        """A request ends and still has its blocks; returns a section for its client."""

    def told(self, section: object) -> object | None:
        """Takes what a client of the engine tells it; returns its answer, if any.

        Called between steps, others of which may be in flight.
        """

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


Ask = Callable[[], object | None]
Plan = Callable[[PlanBuilder], object | None]
Update = Callable[[object, int], object | None]
Finish = Callable[[Request, int], object | None]


class SchedulerExtensions:
    """The scheduler's sides of all extensions, by their names.

    Attributes:
        sides: The sides.
        gates: What requests have to pass.
        planning: Methods to call before each plan.
        plans: Methods to call for each plan.
        busy: Methods that tell whether to poll.
        updates: Methods to call for sections of results.
        finishes: Methods to call for each request that ends.
        asked: Methods to call for sections of `SchedulerStats`.
        telling: Methods to call for sections of outputs.
        holding: Methods that return the blocks that sides reference.
        reported: Sections of `SchedulerStats`; replaced, never changed.
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
        base, overriding = SchedulerSide, self._overriding
        self.planning = [side.planning for _, side in overriding(base.planning)]
        self.plans: list[tuple[str, Plan]] = [
            (name, side.plan) for name, side in overriding(base.plan)
        ]
        self.busy = [side.is_busy for _, side in overriding(base.is_busy)]
        self.updates: dict[str, Update] = {
            name: side.update for name, side in overriding(base.update)
        }
        self.finishes: list[tuple[str, Finish]] = [
            (name, side.finished) for name, side in overriding(base.finished)
        ]
        self.asked: list[tuple[str, Ask]] = [
            (name, side.statistics) for name, side in overriding(base.statistics)
        ]
        self.telling: list[tuple[str, Ask]] = [
            (name, side.news) for name, side in overriding(base.news)
        ]
        self.holding = [side.held_blocks for _, side in overriding(base.held_blocks)]
        self.reported: Sections = NO_SECTIONS
        self.news: dict[str, object] = {}

    def _overriding(
        self, method: Callable[..., object]
    ) -> list[tuple[str, SchedulerSide]]:
        """Returns the sides that have a method of their own in place of the base's."""
        return [
            (name, side)
            for name, side in self.sides.items()
            if getattr(type(side), method.__name__) is not method
        ]

    def loaded(self, shape: ModelShape) -> None:
        """The model is loaded.

        Raises:
            ConfigError: An extension cannot serve it.
        """
        for side in self.sides.values():
            side.loaded(shape)

    def described(self, facts: "EngineFacts") -> "EngineFacts":
        """Returns an engine's facts with what extensions tell of themselves."""
        for side in self.sides.values():
            facts = side.describe(facts)
        return facts

    @property
    def external_prefix(self) -> ExternalPrefix | None:
        """What brings KV of waiting requests, once the sides have started."""
        return _first(side.external_prefix for side in self.sides.values())

    @property
    def tenants(self) -> TenantQueue | None:
        """The waiting queue, if it takes tenants in turn."""
        return _first(side.tenants for side in self.sides.values())

    @property
    def batches(self) -> StepBatches | None:
        """Divides requests among steps in flight; None if a step takes all."""
        return _first(side.batches for side in self.sides.values())

    @property
    def sleep_obstacle(self) -> str | None:
        """Why the engine can never sleep; None if it can."""
        return _first(side.sleep_obstacle for side in self.sides.values())

    def planned(self, builder: PlanBuilder) -> Sections:
        """Returns the sections of a plan."""
        return present((name, plan(builder)) for name, plan in self.plans)

    def updated(self, sections: Sections, now: int) -> Sections:
        """Hands out the sections of a result; returns those of its record."""
        updates = self.updates
        shown = present(
            (name, updates[name](section, now))
            for name, section in sections.items()
            if name in updates
        )
        return MappingProxyType(shown) if shown else NO_SECTIONS

    def finished(self, request: Request, now: int) -> Sections:
        """Returns the sections for the client of a request that ends."""
        return present((name, finish(request, now)) for name, finish in self.finishes)

    def told(self, sections: Sections) -> Sections:
        """Tells extensions something; returns the answers of those that are there."""
        told = ((name, each) for name, each in sections.items() if name in self.sides)
        return present((name, self.sides[name].told(each)) for name, each in told)

    def report(self, name: str, statistics: object) -> None:
        """Replaces an extension's section of the state."""
        self.reported = MappingProxyType({**self.reported, name: statistics})

    def statistics(self) -> Sections:
        """Returns the sections of the state, with those that are asked for."""
        asked = present((name, ask()) for name, ask in self.asked)
        return MappingProxyType({**self.reported, **asked})

    def take_news(self) -> dict[str, object]:
        """Returns the sections of an output; the next ones come with the next."""
        news, self.news = self.news, {}
        news.update(present((name, tell()) for name, tell in self.telling))
        return news

    def close(self) -> None:
        for side in self.sides.values():
            side.close()


def _first(found: Iterable[T | None]) -> T | None:
    return next((each for each in found if each is not None), None)
