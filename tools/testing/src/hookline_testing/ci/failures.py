"""A plugin of pytest that writes down which tests failed, and how.

`pytest -p hookline_testing.ci.failures --failures=FILE` adds a line of JSON to the file
for each failure, also of a test whose process crashed and of a module that cannot be
imported, and one for the end.
"""

from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest


class Failure(msgspec.Struct, frozen=True, tag=True):
    """One failure.

    Attributes:
        nodeid: The test, or the file that could not be collected.
        evidence: The traceback, and what the test wrote.
    """

    nodeid: str
    evidence: str


class End(msgspec.Struct, frozen=True, tag=True):
    """The end of a run of pytest.

    Attributes:
        status: Its exit status.
    """

    status: int


@dataclass(slots=True)
class Failures:
    """What a run of pytest wrote down.

    Attributes:
        tests: The failures; several of one test are one.
        status: Its exit status; None if it did not get to its end.
    """

    tests: list[Failure] = field(default_factory=list)
    status: int | None = None

    @property
    def is_judged_by_tests(self) -> bool:
        """Whether the run has failed, and only because of these tests."""
        return self.status == pytest.ExitCode.TESTS_FAILED and bool(self.tests)


def read_failures(path: Path) -> Failures:
    """Returns what a run wrote."""
    texts: dict[str, list[str]] = {}
    found = Failures()
    for line in path.read_bytes().splitlines() if path.exists() else []:
        written: Failure | End = msgspec.json.decode(line, type=Failure | End)
        if isinstance(written, End):
            found.status = written.status
        else:
            texts.setdefault(written.nodeid, []).append(written.evidence)
    found.tests = [Failure(name, "\n".join(each)) for name, each in texts.items()]
    return found


class FailureWriter:
    """Adds each failure to a file at once, so that a crash loses none."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Implements pytest's hook."""
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Implements pytest's hook."""
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.failed:
            return
        written = [f"--- {name} ---\n{text}" for name, text in report.sections]
        text = "\n".join([report.longreprtext, *written])
        self._write(Failure(report.nodeid, text))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Implements pytest's hook."""
        self._write(End(int(exitstatus)))

    def _write(self, what: Failure | End) -> None:
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(what) + b"\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Implements pytest's hook."""
    parser.addoption("--failures", type=Path, help="file for the tests that fail")


def pytest_configure(config: pytest.Config) -> None:
    """Implements pytest's hook; of several processes, the first writes."""
    path: Path | None = config.getoption("--failures")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailureWriter(path))
