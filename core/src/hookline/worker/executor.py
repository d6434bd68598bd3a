"""What computes a step's tokens: the seam between the core and the machine."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hookline.step.model_shape import ModelShape
from hookline.step.plan import StepPlan, StepResult


class StartedStep(Protocol):
    """A step that an executor was given."""

    def result(self) -> StepResult:
        """Waits until the step is computed; asked for once, in the order of the steps.

        An exception means that the engine has failed.
        """
        ...


@dataclass(frozen=True, slots=True)
class DeferredStep:
    """A step that is computed when its result is asked for, by whoever asks."""

    compute: Callable[[StepPlan], StepResult]
    plan: StepPlan

    def result(self) -> StepResult:
        return self.compute(self.plan)


class Executor(Protocol):
    """Runs the model, or pretends to; called by the core's thread only.

    Attributes:
        shape: Of the model that it has ready.
    """

    shape: ModelShape

    def start(self, plan: StepPlan) -> StartedStep:
        """Takes a step and returns at once; steps are computed in this order.

        The plan may count on tokens of the steps before it that only the executor
        knows. An exception means that the engine has failed.
        """
        ...

    def close(self) -> None:
        """Gives its resources back."""
        ...
