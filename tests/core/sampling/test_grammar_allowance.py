"""Outputs with slow grammars share a store of processor time."""

from hookline.clock import NANOSECONDS
from hookline_grammars.allowance import GrammarAllowance

MILLISECOND = NANOSECONDS // 1000


class Clock:
    now = 0

    def __call__(self) -> int:
        return self.now


def test_one_output_may_take_a_quarter_of_a_second() -> None:
    """
    Beyond its tokens' time, as long as the store has something left.
    """
    allowance = GrammarAllowance(Clock())

    allowance.draw(250 * MILLISECOND)

    assert allowance.permits(250 * MILLISECOND)
    assert not allowance.permits(251 * MILLISECOND)


def test_many_outputs_together_may_take_little_more() -> None:
    """
    Once they have emptied the store, only those go on that have hardly drawn on it;
    time fills it.
    """
    clock = Clock()
    allowance = GrammarAllowance(clock)

    for _ in range(5):
        allowance.draw(200 * MILLISECOND)

    assert not allowance.permits(200 * MILLISECOND)
    assert allowance.permits(25 * MILLISECOND)
    clock.now += 10 * MILLISECOND
    assert allowance.permits(200 * MILLISECOND)
    clock.now += 3600 * NANOSECONDS
    allowance.draw(NANOSECONDS)
    assert not allowance.permits(200 * MILLISECOND)
