"""What the live view says that steps cost: the model of `hookline why`."""

import pytest

from hookline_live.costs import Costs
from hookline_live.frame import Column
from hookline_recording.costs import StepSize

FIXED_US, DECODE_US, PROMPT_US = 5000, 1000, 100


def test_steps_are_shared_out_by_what_work_costs() -> None:
    """
    Columns have the fixed cost of their steps, what prompts and tokens cost, and what
    their work does not explain; together that is the time of the steps.
    """
    costs, ordinary, stalled = Costs(), Column(1), Column(2)
    for number in range(200):
        decodes, tokens = 1 + number % 7, 40 * (number % 3)
        took = FIXED_US + DECODE_US * decodes + PROMPT_US * tokens
        costs.computed(ordinary, StepSize(decodes, tokens), 1000 * took)
    costs.computed(stalled, StepSize(2, 0), 90_000_000)
    costs.share_out()

    decodes = sum(1 + number % 7 for number in range(200))
    assert ordinary.fixed_us == pytest.approx(200 * FIXED_US, rel=0.05)
    assert ordinary.decodes_us == pytest.approx(decodes * DECODE_US, rel=0.05)
    assert ordinary.prompts_us == pytest.approx(7960 * PROMPT_US, rel=0.05)
    assert ordinary.slower_us == 0
    assert stalled.slower_us == pytest.approx(83_000, rel=0.01)
    assert sum(
        (stalled.fixed_us, stalled.prompts_us, stalled.decodes_us, stalled.slower_us)
    ) == pytest.approx(90_000)


def test_first_steps_are_shared_out_by_tokens() -> None:
    """
    Without steps enough for a fit, time goes to tokens in equal parts.
    """
    costs, column = Costs(), Column(1)
    costs.computed(column, StepSize(3, 7), 10_000_000)
    costs.share_out()

    assert (column.prompts_us, column.decodes_us, column.fixed_us) == (7000, 3000, 0)
