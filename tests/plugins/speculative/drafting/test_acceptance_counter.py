"""Acceptance counted in training equals that of verification at temperature 0."""

from hookline_drafting.training.fitting import AcceptanceCounter, batches, rate_factor

ROW = list(range(10, 20))


def guesses(count: int) -> list[list[int]]:
    """Returns correct guesses: that of place i at position p is token p + 2 + i."""
    return [[at + 12 + place for at in range(len(ROW) - 1)] for place in range(count)]


def test_right_guesses_are_accepted_and_passed_over() -> None:
    """A step of two accepted drafts goes on three tokens later."""
    counter = AcceptanceCounter(2)

    counter.walk(ROW, guesses(2), 0)

    assert counter.report.drafts == 3  # at 0, 3 and 6
    assert counter.report.accepted_by_position == (3, 3)
    assert counter.report.mean_accepted_length == 3.0


def test_guesses_after_a_wrong_one_do_not_count() -> None:
    """The next step begins behind the token that came instead."""
    counter, wrong = AcceptanceCounter(3), guesses(3)
    wrong[1][0] = 0

    counter.walk(ROW, wrong, 0)

    assert counter.report.drafts == 2  # at 0 and 2; at 6 there is no room for three
    assert counter.report.accepted_by_position == (2, 1, 1)


def test_walk_begins_at_its_start() -> None:
    counter = AcceptanceCounter(1)

    counter.walk(ROW, guesses(1), 5)

    assert counter.report.drafts == 2


def test_batches_are_all_rows_once_an_epoch() -> None:
    """In another order each time, and the same with the same seed."""
    made, again = batches(10, 4, seed=3), batches(10, 4, seed=3)

    epochs = [[next(made).tolist() for _ in range(3)] for _ in range(2)]

    assert [sorted(sum(epoch, [])) for epoch in epochs] == [list(range(10))] * 2  # noqa: RUF017
    assert epochs[0] != epochs[1]
    assert next(again).tolist() == epochs[0][0]


def test_rate_rises_and_falls() -> None:
    """To its highest in twenty steps, and to a fiftieth at the end."""
    rates = [rate_factor(step, 100) for step in range(101)]

    assert rates[0] == 1 / 20
    assert rates[20] == max(rates) == 1.0
    assert rates[20:] == sorted(rates[20:], reverse=True)
    assert abs(rates[100] - 0.02) < 1e-9
