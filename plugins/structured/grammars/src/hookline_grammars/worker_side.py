"""The worker's side: masks logits by grammars, and fits drafts to them."""

from collections.abc import Sequence

from hookline.config import Kernels
from hookline.engine.worker.extension import RunnerParts, WorkerSide, WorkerStep
from hookline.engine.worker.sampling.logits_processor import (
    LogitsProcessor,
    LogitsProcessorContext,
)
from hookline.step import AdmittedSequence, StepPlan
from hookline_grammars.compiled import GRAMMAR
from hookline_grammars.drafts import GrammarDrafts
from hookline_grammars.masks import GrammarMasks
from hookline_grammars.own_backends import MatcherSource
from hookline_grammars.rank_grammars import RankGrammars


class GrammarWorker(WorkerSide):
    """Follows the requests that have grammars."""

    def __init__(self, matchers: MatcherSource) -> None:
        """Starts without a batch.

        Args:
            matchers: Makes matchers of compiled grammars.
        """
        self._matchers = matchers
        self._masks: GrammarMasks | None = None
        self._drafts: GrammarDrafts | None = None

    def logits_processors(
        self, context: LogitsProcessorContext
    ) -> Sequence[LogitsProcessor]:
        """Returns the masks; a kernel applies them to logits in main memory."""
        is_torch = context.config.executor.kernels is Kernels.TORCH
        self._masks = GrammarMasks(
            self._matchers,
            context.vocab_size,
            may_compile=not is_torch and context.device.type == "cpu",
        )
        return [self._masks]

    def bind(self, parts: RunnerParts) -> None:
        assert self._masks is not None, "logits_processors comes first"
        self._drafts = GrammarDrafts(
            self._masks, parts.batch, changes=parts.can_change_drafts
        )

    def joined(self, row: int, sequence: AdmittedSequence) -> bool:  # noqa: ARG002
        return GRAMMAR.name in sequence.sections

    def left(self, row: int) -> None:
        """The masks are released as logits processors are."""

    def sampled(self, step: WorkerStep) -> None:
        assert self._drafts is not None, "bind comes first"
        self._drafts.fit(step)


class RankWorker(GrammarWorker):
    """The side in a process of its own, which has compiled none of its grammars."""

    def __init__(self, grammars: RankGrammars) -> None:
        super().__init__(grammars)
        self._grammars = grammars

    def started(self, plan: StepPlan) -> None:
        self._grammars.expect(plan)
