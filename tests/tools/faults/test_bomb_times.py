"""Bombs of grammars, and the table of their times."""

from hookline_faults.fuzzing.canary import Sighting, Watch
from hookline_faults.fuzzing.watching import Watched
from hookline_faults.hostile.bomb_times import Sent, table


def test_a_row_has_the_longest_wait_of_its_own_time() -> None:
    """
    Waits that ended before, or began afterwards, belong to other bombs.
    """
    stream = Watch(waits=[(1.0, 5.0, 0.0), (9.9, 0.2, 0.0), (10.5, 0.3, 0.0)])
    seen = Watched(Sighting(stream=stream, health=Watch(waits=[(12.0, 1.0, 0.0)])))
    sent = Sent("levels", begun=10.0, seconds=1.0, answer="400 limit_exceeded")

    *_, row = table([sent], seen)

    assert row == "| levels | 400 limit_exceeded | 1.00 | 300 ms | < 50 ms |"
