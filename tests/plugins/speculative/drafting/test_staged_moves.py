"""What the last stage of a pipeline has moved reaches the stages before it."""

from hookline.engine.scheduler.plan_builder import PlanBuilder
from hookline_drafting.scheduler_side import StagedDrafting
from hookline_drafting.sections import DraftedStep, PlannedMoves, SlotMoves
from hookline_metrics.drafts import DraftUse


def test_stages_are_told_once_what_the_last_one_has_moved() -> None:
    """In the order of its steps; until then the engine polls."""
    moves = [SlotMoves([3, 4], [1, 2]), SlotMoves([9], [8])]
    side = StagedDrafting()

    for each in (moves[0], None, moves[1]):
        side.update(DraftedStep(DraftUse(), each), 0)
    was_busy = side.is_busy()
    plans = [side.plan(PlanBuilder(0)) for _ in range(2)]

    assert plans == [PlannedMoves(moves), None]
    assert (was_busy, side.is_busy()) == (True, False)


def test_observers_get_failures_that_they_cannot_change() -> None:
    """The section of a step's record is what drafting took."""
    use = StagedDrafting().update(DraftedStep(DraftUse(5, 2, {"raised": 1})), 0)

    assert use is not None
    assert (use.draft_ns, use.most_drafts) == (5, 2)
    assert type(use.proposer_failures).__name__ == "mappingproxy"
