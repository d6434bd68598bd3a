"""A step plan in the making: its budget, its order, and what is taken back."""

from hookline.request import Request
from hookline.scheduler.draft import Draft
from hookline.testing.simulation import engine_request


def request(request_id: int, prompt_tokens: int, num_computed: int = 0) -> Request:
    inner = engine_request(request_id, [3] * prompt_tokens)
    made = Request(inner, sequence=request_id, queued_at=0, max_tokens=1)
    made.num_computed_tokens = num_computed
    return made


def test_budget_goes_down_and_comes_back() -> None:
    """Dropping a request gives back exactly the tokens it was given."""
    draft = Draft(10)
    first, second = request(1, 4), request(2, 3)
    draft.add(first, 4, [])
    draft.admit(second, 3)
    left = draft.budget

    draft.drop(first)

    assert (left, draft.budget) == (3, 7)
    assert [entry[0] for entry in draft.entries] == [second]


def test_dropping_a_stranger_changes_nothing() -> None:
    """A request that was given nothing has nothing to give back."""
    draft = Draft(10)
    draft.add(request(1, 4), 4, [])

    draft.drop(request(2, 4))

    assert (draft.budget, len(draft.entries)) == (6, 1)


def test_plan_has_single_tokens_first_and_only_new_blocks() -> None:
    """Decodes lead the batch, and blocks are named for those that got some."""
    draft = Draft(10)
    draft.add(request(1, 5), 3, [7, 8])
    draft.add(request(2, 4, num_computed=3), 1, [])
    draft.admit(request(3, 2), 2)

    plan = draft.plan(4, [9])

    assert (plan.step, plan.released) == (4, [9])
    assert (plan.request_ids, plan.num_tokens) == ([2, 1, 3], [1, 3, 2])
    assert plan.new_block_ids == {1: [7, 8]}
    assert [admitted.request_id for admitted in plan.admitted] == [3]
    assert (plan.total_tokens, plan.context_tokens) == (6, 3)
