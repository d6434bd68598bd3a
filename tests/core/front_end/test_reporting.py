"""What changes in the front end reaches the loggers once per second."""

import asyncio

import pytest

from hookline.front_end_parts import FrontEndPart
from hookline.frontend import reporting
from hookline.frontend.reporting import FrontEndReporter
from hookline_metrics.front_end_parts import LogStats


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "REPORT_SECONDS", 0.001)


async def test_only_changed_parts_are_reported() -> None:
    """A part is reported at first, then again when it has changed."""
    reported: list[FrontEndPart] = []
    unread = 0
    reporter = FrontEndReporter(asyncio.get_running_loop(), reported.extend)

    reporter.add(lambda: LogStats(unread=unread))
    await asyncio.sleep(0.02)
    unread = 3
    await asyncio.sleep(0.02)
    reporter.close()

    assert reported == [LogStats(), LogStats(unread=3)]


async def test_the_end_reports_the_last_change() -> None:
    """Changes since the last report are not lost at the end, and nothing follows."""
    reported: list[FrontEndPart] = []
    unread = 0
    reporter = FrontEndReporter(asyncio.get_running_loop(), reported.extend)
    reporter.add(lambda: LogStats(unread=unread))

    unread = 2
    reporter.close()
    unread = 5
    await asyncio.sleep(0.02)

    assert reported == [LogStats(), LogStats(unread=2)]
