"""Extensions in an executor that simulates steps, without a model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from hookline.clock import Clock
from hookline.engine.worker.extension import WorkerSide
from hookline.step import AdmittedSequence, ModelShape, StepPlan


@dataclass(slots=True, kw_only=True)
class SimulatedStep:
    """A step that was simulated without a model.

    An extension may add to `drafts` and `sections`.

    Attributes:
        plan: The step's plan.
        sequences: The requests of the batch by their ids.
        texts: Their prompts and outputs, likewise.
        prefilled: Requests that sample nothing, and whose prompts are complete.
        tokens: Sampled tokens by request id.
        step_ns: Duration of the step.
        drafts: Drafts for the next step by request id.
        sections: Sections of the result.
    """

    plan: StepPlan
    sequences: Mapping[int, AdmittedSequence]
    texts: Mapping[int, Sequence[int]]
    prefilled: Sequence[AdmittedSequence]
    tokens: Mapping[int, list[int]]
    step_ns: int
    drafts: dict[int, list[int]] = field(default_factory=dict)
    sections: dict[str, object] = field(default_factory=dict)


FollowSimulation = Callable[[SimulatedStep], None]
"""Called after each step that was simulated, polls among them."""


@runtime_checkable
class CostlySimulation(Protocol):
    """What follows a simulation, adds to the time of steps, and tells of itself."""

    def __call__(self, step: SimulatedStep) -> None:
        """As `FollowSimulation`."""

    def step_seconds(self, plan: StepPlan) -> float:
        """A step begins; returns what it takes longer. Called for each plan."""

    def describe(self, sections: dict[str, object]) -> None:
        """Adds its section of the model's shape."""


@runtime_checkable
class CacheExtension(Protocol):
    """An extension whose work needs the KV cache alone, and no model."""

    def cache_side(self) -> WorkerSide:
        """Makes a side of which only the methods are called that need no batch."""


@runtime_checkable
class SimulatedExtension(Protocol):
    """An extension that has results where no model computes."""

    def simulated(self, shape: ModelShape, clock: Clock) -> FollowSimulation:
        """Returns what to call after each step.

        Args:
            shape: The simulated model.
            clock: Clock of the simulation.
        """
