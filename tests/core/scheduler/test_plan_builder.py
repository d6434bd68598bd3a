"""A step plan in the making: its budget, its order, and what is taken back."""

from hookline.engine.scheduler.plan_builder import PlanBuilder
from hookline.request import Request
from hookline.sections import NO_SECTIONS
from hookline.stats.step_work import Obstacle
from hookline_testing.simulation import engine_request


def request(request_id: int, prompt_tokens: int, num_computed: int = 0) -> Request:
    inner = engine_request(request_id, [3] * prompt_tokens)
    made = Request(inner, sequence=request_id, queued_at=0, max_tokens=1)
    made.num_computed_tokens = num_computed
    return made


def test_budget_is_returned_by_dropped_requests() -> None:
    """Dropping a request gives back exactly the tokens it was given."""
    builder = PlanBuilder(10)
    first, second = request(1, 4), request(2, 3)
    builder.add(first, 4, [])
    builder.add(second, 3, [])
    left = builder.budget

    builder.drop(first)

    assert (left, builder.budget) == (3, 7)
    assert [entry.request for entry in builder.entries] == [second]


def test_dropping_a_stranger_changes_nothing() -> None:
    """A request that was given nothing has nothing to give back."""
    builder = PlanBuilder(10)
    builder.add(request(1, 4), 4, [])

    builder.drop(request(2, 4))

    assert (builder.budget, len(builder.entries)) == (6, 1)


def test_plan_has_single_tokens_first_and_only_new_blocks() -> None:
    """Decodes lead the batch, and blocks are named for those that got some."""
    builder = PlanBuilder(10)
    builder.add(request(1, 5), 3, [7, 8])
    builder.add(request(2, 4, num_computed=3), 1, [])
    joins = request(3, 2)
    builder.add(joins, 2, [])
    builder.admitted.append(joins)

    plan = builder.plan(4, [9], NO_SECTIONS, Obstacle.NONE)

    assert (plan.step, plan.released) == (4, [9])
    assert (plan.request_ids, plan.num_tokens) == ([2, 1, 3], [1, 3, 2])
    assert plan.new_block_ids == {1: [7, 8]}
    assert [admitted.request_id for admitted in plan.admitted] == [3]
    assert (plan.work.tokens, plan.work.context_tokens) == (6, 3)
