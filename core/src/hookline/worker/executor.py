"""What computes a step's tokens: the seam between the core and the machine."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from hookline.cost import ModelCost
from hookline.kv_transfer.layout import KVLayout
from hookline.scheduler.plan import StepPlan, StepResult
from hookline.spec_decode.tree import DraftTree


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """What the core must know of a model to schedule it.

    Attributes:
        architecture: The model's class.
        dtype: Of weights and KV cache.
        vocab_size: Number of token ids.
        max_model_len: Context length in tokens.
        num_kv_blocks: Blocks that its KV cache holds.
        eos_token_ids: Tokens that end its texts.
        cost: What its steps cost; a model that only pretends costs nothing.
        kernels: What computes them, and why not what is quicker; empty if nothing does.
        draft_tree: The form of drafts; None if they are chains, or if there are none.
        kv_layout: What its KV blocks are, if a connector moves them.
    """

    architecture: str
    dtype: str
    vocab_size: int
    max_model_len: int
    num_kv_blocks: int
    eos_token_ids: tuple[int, ...]
    cost: ModelCost = field(default_factory=ModelCost)
    kernels: str = ""
    draft_tree: DraftTree | None = None
    kv_layout: KVLayout | None = None


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
