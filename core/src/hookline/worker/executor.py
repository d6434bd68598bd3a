"""The interface between the core and an executor of steps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hookline.stats import RankUse, SchedulerStats
from hookline.step.model_shape import ModelShape
from hookline.step.plan import StepPlan, StepResult
from hookline.step.sleep_level import SleepLevel

Compute = Callable[[StepPlan], StepResult]
"""Computes a step. Any exception is fatal to the engine."""


class StartedStep(Protocol):
    """A step that an executor has accepted."""

    def result(self) -> StepResult:
        """Waits for the step and returns its tokens.

        Called once, in the order of the steps. Any exception is fatal to the engine.
        """
        ...


@dataclass(frozen=True, slots=True)
class DeferredStep:
    """A step that is computed by the caller of `result`."""

    compute: Compute
    plan: StepPlan

    def result(self) -> StepResult:
        return self.compute(self.plan)


class Executor(Protocol):
    """Runs the model, or simulates one. Called by the core's thread only.

    Attributes:
        shape: The loaded model, and the size of its KV cache.
        pids: Process ids of its ranks, in their order; none if it computes in this
            process.
        hosts: Names of the machines of its ranks, in their order; empty if it is this
            one.
    """

    shape: ModelShape
    pids: tuple[int, ...]
    hosts: tuple[str, ...]

    def start(self, plan: StepPlan) -> StartedStep:
        """Accepts a step without waiting; steps are computed in this order.

        The plan may build on tokens of earlier steps that only the executor knows yet.
        Any exception is fatal to the engine. Must not be called during sleep.
        """
        ...

    def check(self) -> None:
        """Raises an error if it can compute no more steps.

        Called between steps, and several times per second while there are none.

        Raises:
            RankError: One of its ranks has ended.
        """
        ...

    def sleep(self, level: SleepLevel) -> None:
        """Returns memory to the system until `wake_up`; `shape` stays the same.

        Every block of the KV cache loses its contents. The caller must therefore take
        the result of each started step, preempt all running requests and reset the
        scheduler's prefix cache first; no extension may access blocks. A sleeping
        executor may be put to a deeper sleep. The executor keeps the state of requests
        until a plan releases them.
        """
        ...

    def wake_up(self) -> None:
        """Allocates the memory again; returns when the next step can start.

        Raises:
            ModelLoadError: The weights can no longer be loaded, or have changed in a
                way that does not fit `shape`.
        """
        ...

    def close(self) -> None:
        """Releases all resources; also valid during sleep."""
        ...


@runtime_checkable
class SharingExecutor(Protocol):
    """An executor whose model several ranks or engines share in whole parts.

    If these are engines, it keeps step with theirs. Called by the core's thread only.

    Attributes:
        bell: Descriptor that is readable once other engines need this one; None if no
            engine does.
    """

    bell: int | None

    def assist_others(self) -> bool:
        """Computes a dummy step if others have begun a step; returns whether it did.

        Called while this engine has nothing to compute itself.
        """
        ...

    def rest(self) -> bool:
        """Returns whether no engine needs this one any more, which begins no step.

        Such engines go to sleep together.
        """
        ...

    def rise(self) -> None:
        """Tells that this engine, which is awake, may begin steps again."""
        ...

    def add_stats(self, stats: SchedulerStats) -> SchedulerStats:
        """Adds to a state what its parts have computed."""
        ...


@runtime_checkable
class AssistingExecutor(Protocol):
    """An executor whose model's experts several engines share; called likewise."""

    def assist(self) -> RankUse:
        """Computes its experts in a step of other engines, and waits for its end.

        No started step may be without a result. Any exception is fatal to the engine.
        """
        ...
