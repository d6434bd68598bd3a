"""The scheduler's side: passes on what drafting took, and what stages have to move."""

from collections.abc import Callable, Sequence

import msgspec

from hookline.engine.scheduler.extension import SchedulerSide
from hookline.engine.scheduler.plan_builder import PlanBuilder
from hookline.frozen import frozen_map
from hookline_drafting.sections import RESULT, PlannedMoves, SlotMoves
from hookline_metrics.drafts import DraftUse


class DraftingScheduler(SchedulerSide):
    """Tells observers what drafting took."""

    def __init__(self, closing: Sequence[Callable[[], None]] = ()) -> None:
        """Keeps what has to be called at the end."""
        self._closing = closing

    def update(self, section: object, now: int) -> DraftUse | None:  # noqa: ARG002
        """Returns the section of the step's record."""
        return _frozen(RESULT.typed(section).use)

    def close(self) -> None:
        for close in self._closing:
            close()


class StagedDrafting(DraftingScheduler):
    """Also tells the earlier stages of a pipeline what the last one has moved."""

    def __init__(self, closing: Sequence[Callable[[], None]] = ()) -> None:
        super().__init__(closing)
        self._moves: list[SlotMoves] = []

    def is_busy(self) -> bool:
        """Whether moves must be told before a connector saves what they move."""
        return bool(self._moves)

    def plan(self, builder: PlanBuilder) -> PlannedMoves | None:  # noqa: ARG002
        """Returns the moves since the last plan, once."""
        if not self._moves:
            return None
        moves, self._moves = self._moves, []
        return PlannedMoves(moves)

    def update(self, section: object, now: int) -> DraftUse | None:  # noqa: ARG002
        """Keeps the step's moves for the next plan."""
        drafted = RESULT.typed(section)
        if drafted.moves is not None:
            self._moves.append(drafted.moves)
        return _frozen(drafted.use)


def _frozen(use: DraftUse | None) -> DraftUse | None:
    """Returns what observers may keep."""
    if use is None:
        return None
    failures = frozen_map(use.proposer_failures)
    return msgspec.structs.replace(use, proposer_failures=failures)
