"""Runs tests that failed again, each alone: those that then pass are unstable."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hookline_testing.ci.commands import Command, Outcome
from hookline_testing.ci.failures import Failure

MOST_SECOND_RUNS = 20
"""So many failures are no accident: none of the tests is run again."""
LIMIT_SECONDS = 900.0
ALONE = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")


@dataclass(frozen=True, slots=True)
class Twice:
    """A test that failed, and what it did alone.

    Attributes:
        failure: Its failure among the others.
        alone: Its second run; None if there was none.
    """

    failure: Failure
    alone: Outcome | None

    @property
    def is_unstable(self) -> bool:
        """Whether it passed alone."""
        return self.alone is not None and self.alone.status == 0


def run_again(
    failures: Sequence[Failure], command: Iterable[str] = ALONE
) -> list[Twice]:
    """Runs each test alone, one after the other.

    Args:
        failures: The tests that failed.
        command: Runs the test whose name follows.
    """
    if len(failures) > MOST_SECOND_RUNS:
        return [Twice(failure, None) for failure in failures]
    return [Twice(failure, _alone(failure.nodeid, command)) for failure in failures]


def _alone(nodeid: str, command: Iterable[str]) -> Outcome:
    with Command([*command, nodeid]) as running:
        return running.outcome(limit_seconds=LIMIT_SECONDS)
