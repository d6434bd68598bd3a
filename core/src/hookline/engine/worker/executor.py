"""The interface between the core and an executor of steps, and what it is made from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from hookline.clock import Clock
from hookline.stats.scheduler_stats import SchedulerStats
from hookline.step import ModelShape, SleepLevel, StepPlan, StepResult

if TYPE_CHECKING:  # it needs torch, which is imported once an executor is chosen
    from hookline.config.engine import EngineConfig
    from hookline.engine.worker.rank_context import RankContext
    from hookline.startup_timer import StartupTimer

Compute = Callable[[StepPlan], StepResult]
"""Computes a step. Any exception is fatal to the engine."""
MakeRanks = Callable[["EngineConfig"], "RankContext"]
"""Makes the context of one rank; may raise `KernelError`."""


class StartedStep(Protocol):
    """A step that an executor has accepted."""

    def result(self) -> StepResult:
        """Waits for the step and returns its tokens.

        Called once, in the order of the steps. Any exception is fatal to the engine.
        """


@dataclass(frozen=True, slots=True)
class DeferredStep:
    """A step that is computed by the caller of `result`."""

    compute: Compute
    plan: StepPlan

    def result(self) -> StepResult:
        return self.compute(self.plan)


Start = Callable[[StepPlan], StartedStep]
"""Starts a step, as `Executor.start`."""


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

    def check(self) -> None:
        """Raises an error if it can compute no more steps.

        Called between steps, and several times per second while there are none.

        Raises:
            RankError: One of its ranks has ended.
        """

    def sleep(self, level: SleepLevel) -> None:
        """Returns memory to the system until `wake_up`; `shape` stays the same.

        Every block of the KV cache loses its contents. The caller must therefore take
        the result of each started step, preempt all running requests and reset the
        scheduler's prefix cache first; no extension may access blocks. A sleeping
        executor may be put to a deeper sleep. The executor keeps the state of requests
        until a plan releases them.
        """

    def wake_up(self) -> None:
        """Allocates the memory again; returns when the next step can start.

        Raises:
            ModelLoadError: The weights can no longer be loaded, or have changed in a
                way that does not fit `shape`.
        """

    def close(self) -> None:
        """Releases all resources; also valid during sleep."""


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

    def rest(self) -> bool:
        """Returns whether no engine needs this one any more, which begins no step.

        Such engines go to sleep together.
        """

    def rise(self) -> None:
        """Tells that this engine, which is awake, may begin steps again."""

    def add_stats(self, stats: SchedulerStats) -> SchedulerStats:
        """Adds to a state what its parts have computed."""


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
    timer: "StartupTimer"
    extensions: Mapping[str, object] = field(default_factory=dict)
    make_ranks: MakeRanks | None = None
