"""The worker's side of an extension.

An extension overrides the methods that it needs; the others are not called.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from hookline.config.parallel import ParallelConfig
from hookline.finish_cause import FinishCause
from hookline.step.plan import AdmittedSequence, StepPlan

if TYPE_CHECKING:  # need torch, which the scheduler's side of an extension does not
    import torch

    from hookline.worker.input_batch import InputBatch, Int64, StepInputs
    from hookline.worker.sampling.logits_processor import (
        LogitsProcessor,
        LogitsProcessorContext,
    )
    from hookline.worker.shown_cache import ShownCache


@dataclass(slots=True)
class WorkerStep:
    """A step that a worker computes.

    An extension may add to `failed` and `sections`, and replace `drafts`.

    Attributes:
        plan: The step's plan.
        inputs: Its flattened batch.
        hidden_states: [T, hidden] the model's last hidden states of all tokens; None
            if nobody needs them.
        failed: Causes of errors by request id; these requests end.
        rows: [S] rows that were sampled for; a request's are adjacent. None before.
        tokens: Sampled tokens by request id; none before.
        drafts: Drafts for the next step by request id.
        sections: Sections of the result.
    """

    plan: StepPlan
    inputs: "StepInputs"
    hidden_states: "torch.Tensor | None"
    failed: dict[int, FinishCause]
    rows: "Int64 | None" = None
    tokens: dict[int, list[int]] = field(default_factory=dict)
    drafts: dict[int, list[int]] = field(default_factory=dict)
    sections: dict[str, object] = field(default_factory=dict)


class Drafts(Protocol):
    """Those whose drafts an extension may change."""

    def forget(self, request_id: int) -> None:
        """A request gets other drafts than those that were proposed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerParts:
    """The parts of a runner that an extension works with.

    Attributes:
        batch: Rows of the running requests.
        drafter: Proposes drafts; None without a proposer.
        can_change_drafts: Whether the next step verifies what the extension drafts.
    """

    batch: "InputBatch"
    drafter: Drafts | None
    can_change_drafts: bool


class WorkerSide:
    """An extension's side in the worker. All runs on the worker's thread.

    What it raises ends the engine.

    Attributes:
        states_option: The option for which it needs hidden states; empty if it needs
            none.
        uses_cache: Whether it is shown the KV cache, once, and needs the model's
            fingerprint. The engine then does not start without compiled kernels.
        graph_obstacle: Why steps cannot be captured in CUDA graphs; empty if they can.
    """

    states_option: str = ""
    uses_cache: bool = False
    graph_obstacle: str = ""

    def logits_processors(
        self, context: "LogitsProcessorContext"
    ) -> Sequence["LogitsProcessor"]:
        """Returns its logits processors, for the worker's whole life."""
        raise NotImplementedError

    def allocated(self, cache: "ShownCache") -> None:
        """The KV cache is allocated; called once, if `uses_cache`.

        Its memory stays the same for the worker's whole life.

        Raises:
            ConfigError: The extension cannot use such a cache.
        """

    def describe(self, sections: dict[str, object]) -> None:
        """Adds its section of the model's shape, after `allocated`."""

    def bind(self, parts: RunnerParts) -> None:
        """Steps will be computed with these parts; called for each new runner."""

    def started(self, plan: StepPlan) -> None:
        """A step begins. Called for each plan, before anything is computed."""

    def ended(self, sections: dict[str, object]) -> None:
        """The layers are computed, in a step without requests at once.

        Called for each plan, also where nothing is sampled; adds its section of the
        result. Afterwards the step's KV blocks may change.
        """

    def joined(self, row: int, sequence: AdmittedSequence) -> bool:
        """A request joins the batch, for the first time or after a preemption.

        Returns:
            Whether the extension follows this request. `left`, `computed` and `sampled`
            are called only while it follows one.
        """
        raise NotImplementedError

    def left(self, row: int) -> None:
        """A request that it follows has left its row."""

    def computed(self, step: WorkerStep) -> None:
        """The model has computed a step, and nothing has been sampled yet."""

    def sampled(self, step: WorkerStep) -> None:
        """Tokens were sampled, and drafts proposed for the next step."""

    def close(self) -> None:
        """The worker ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerContext:
    """What an extension knows when its side in a worker is made.

    Attributes:
        samples: Whether tokens are sampled in this rank, whose results count.
        has_hidden_states: Whether this rank computes the model's last hidden states.
    """

    samples: bool = True
    has_hidden_states: bool = True


@runtime_checkable
class WorkerExtension(Protocol):
    """An extension that has a side in each worker."""

    def worker_side(self, context: WorkerContext) -> WorkerSide | None:
        """Makes the side; called once in each rank. None if it has no work there."""


@runtime_checkable
class CacheExtension(Protocol):
    """An extension whose work needs the KV cache alone, and no model."""

    def cache_side(self) -> WorkerSide:
        """Makes a side of which only the methods are called that need no batch."""


@runtime_checkable
class JoinedExtension(Protocol):
    """An extension whose sides have a section in each result of every rank."""

    def join_ranks(self, num_ranks: int) -> Callable[[Sequence[object]], object]:
        """Returns what makes one section out of those of all ranks.

        It is called once for each result, in the order of the steps, with the section
        of the output rank first.
        """


@runtime_checkable
class SimulatedExtension(Protocol):
    """An extension that has results where no model computes."""

    def simulated(self, sequences: Collection[AdmittedSequence]) -> object | None:
        """Returns its section of the result of a step without a model.

        Args:
            sequences: Requests that sample nothing, and whose prompts are complete.
        """


def worker_sides(
    extensions: Collection[object], parallel: ParallelConfig
) -> list[WorkerSide]:
    """Makes the sides of those extensions that have one in a rank."""
    context = WorkerContext(
        samples=parallel.rank == parallel.output_rank,
        has_hidden_states=parallel.stage == parallel.pipeline_parallel_size - 1,
    )
    made = [
        each.worker_side(context)
        for each in extensions
        if isinstance(each, WorkerExtension)
    ]
    return [side for side in made if side is not None]
