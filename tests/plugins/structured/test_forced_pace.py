"""Drafts of forced text, for models that spell it in their own way."""

from hookline_grammars.forced_pace import (
    FIRST_FORCED,
    MOST_FORCED,
    ForcedPace,
)


def pauses(pace: ForcedPace) -> int:
    """Number of steps until something is drafted."""
    steps = 0
    while pace.is_pausing():
        steps += 1
    return steps


def test_all_is_drafted_while_it_is_accepted() -> None:
    """
    More each time, however short the forced text was.
    """
    pace = ForcedPace()
    found = [pace.most]
    for drafted in (4, 3, 1, 16):
        assert not pace.is_pausing()
        pace.verified(drafted, drafted)
        found.append(pace.most)

    assert found == [FIRST_FORCED, 8, MOST_FORCED, MOST_FORCED, MOST_FORCED]


def test_a_part_that_is_accepted_is_a_limit_until_all_is() -> None:
    """
    One more than was accepted, then twice as many each time.
    """
    pace = ForcedPace()
    found = []
    for accepted, drafted in ((2, 16), (3, 3), (6, 6), (12, 12), (0, 16), (1, 1)):
        pace.verified(accepted, drafted)
        found.append(pace.most)

    assert found == [3, 6, 12, 16, 1, 2]


def test_nothing_is_drafted_for_longer_each_time_nothing_was_accepted() -> None:
    """
    Up to 64 steps; an accepted token ends that.
    """
    pace = ForcedPace()
    found = []
    for _ in range(8):
        pace.verified(0, 4)
        found.append(pauses(pace))
    pace.verified(1, 4)
    found.append(pauses(pace))
    pace.verified(0, 4)
    found.append(pauses(pace))

    assert found == [1, 2, 4, 8, 16, 32, 64, 64, 0, 1]
