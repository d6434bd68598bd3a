"""Runs parts of the tests, judges them, and says what they came to."""

import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from hookline_testing.ci.commands import Command, Outcome, say
from hookline_testing.ci.failures import Failure, read_failures
from hookline_testing.ci.report import (
    ProcessorUse,
    closing_line,
    describe,
    skipped_tests,
)
from hookline_testing.ci.second_runs import ALONE, run_again

TOTAL_SECONDS = 4500.0
"""Time for all parts together; what still runs after it is killed, and has failed."""


@dataclass(frozen=True, slots=True)
class Part:
    """Tests, and what runs beside them.

    Attributes:
        tests: Command that runs pytest, and takes its arguments as `ARGS=…`.
        beside: Another check; None if there is none.
    """

    tests: tuple[str, ...]
    beside: tuple[str, ...] | None = None


@dataclass(slots=True)
class Ran:
    """What the parts came to.

    Attributes:
        outputs: What each run of pytest wrote.
        failures: Tests that failed.
        complaints: What else makes the whole fail, in one line each.
    """

    outputs: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


def land(parts: Iterable[Part], folder: Path, again: Sequence[str] = ALONE) -> int:
    """Runs the parts, and again, alone, each test that failed.

    Args:
        parts: In their order.
        folder: For files of this run.
        again: Command that runs the test whose name follows.

    Returns:
        The exit status: 0 if nothing failed, or only tests that passed alone.
    """
    ran, used = Ran(), ProcessorUse()
    deadline = time.monotonic() + TOTAL_SECONDS
    for number, part in enumerate(parts):
        _run(part, folder / f"failures-{number}", ran, deadline)
    processors = str(used)
    tests = run_again(ran.failures, again)
    failed = [each for each in tests if not each.is_unstable]
    unstable = [each for each in tests if each.is_unstable]
    ran.complaints += [f"{each.failure.nodeid} failed" for each in failed]
    for title, text in {
        "Failed tests": describe(failed),
        "Unstable tests (they passed alone)": describe(unstable),
        "Skipped tests": "\n".join(skipped_tests(ran.outputs)),
        "Processors": processors,
        "Complaints": "\n".join(ran.complaints),
    }.items():
        say(f"\n{title}:\n{text or 'none'}\n")
    for output in ran.outputs:
        say(f"{closing_line(output)}\n")
    return 1 if ran.complaints else 0


def _run(part: Part, path: Path, ran: Ran, deadline: float) -> None:
    """Runs one part, and adds to what the others came to."""
    plugins = "-p hookline_testing.ci.failures -p hookline_testing.ci.idle"
    arguments = f"ARGS={plugins} --failures={path}"
    with ExitStack() as running:
        beside = None
        if part.beside is not None:
            beside = running.enter_context(Command(part.beside))
        tests = running.enter_context(Command([*part.tests, arguments]))
        left = max(0.0, deadline - time.monotonic())
        _judge_tests(part, tests.outcome(say, limit_seconds=left), path, ran)
        if part.beside is not None and beside is not None:
            done = beside.outcome()
            say(f"\n{' '.join(part.beside)}:\n{done.output}")
            if done.status != 0:
                ran.complaints.append(f"{' '.join(part.beside)} failed")


def _judge_tests(part: Part, done: Outcome, path: Path, ran: Ran) -> None:
    found = read_failures(path)
    ran.outputs.append(done.output)
    ran.failures += found.tests
    is_fine = done.status == 0 and found.status == 0
    if closing_line(done.output) is None or not (is_fine or found.is_judged_by_tests):
        ran.complaints.append(
            f"{' '.join(part.tests)} ended with {done.status}, pytest with "
            f"{found.status}"
        )
