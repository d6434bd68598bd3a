"""The state of the loggers' lanes in a running server, read from its metrics."""

from collections.abc import Iterable
from dataclasses import dataclass

from hookline_server.cli.errors import UsageError
from hookline_server.cli.metrics_tools.page import MetricsPage

PREFIX = "hookline_logger_"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneReport:
    """One logger's lane; counts are since the server's start."""

    logger: str
    depth: float
    delivered: float
    dropped: float
    errors: float
    busy_seconds: float
    is_breaker_open: bool
    is_left_out: bool = False

    @property
    def problems(self) -> tuple[str, ...]:
        """Present and past problems."""
        found = (
            (self.is_left_out, "left out: it has ended the observer process"),
            (self.is_breaker_open, "breaker open"),
            (self.dropped > 0, f"{self.dropped:g} batches dropped"),
            (self.errors > 0, f"{self.errors:g} errors"),
        )
        return tuple(text for is_wrong, text in found if is_wrong)


def lane_reports(page: MetricsPage) -> list[LaneReport]:
    """Returns the lanes on a page of metrics, sorted by logger.

    Raises:
        UsageError: The page has no lane.
    """
    loggers = {
        sample.labels.get("logger", "")
        for sample in page.samples
        if sample.name.startswith(PREFIX)
    }
    if not loggers:
        raise UsageError(
            "the page has no lanes; the server must expose the dialect hookline"
        )
    return [_report(page, logger) for logger in sorted(loggers)]


def _report(page: MetricsPage, logger: str) -> LaneReport:
    return LaneReport(
        logger=logger,
        depth=_number(page, logger, "lane_depth"),
        delivered=_number(page, logger, "delivered_batches_total"),
        dropped=_number(page, logger, "dropped_batches_total"),
        errors=_number(page, logger, "errors_total"),
        busy_seconds=_number(page, logger, "busy_seconds_total"),
        is_breaker_open=_number(page, logger, "breaker_open") > 0,
        is_left_out=_number(page, logger, "left_out") > 0,
    )


def _number(page: MetricsPage, logger: str, name: str) -> float:
    return sum(_values(page, logger, f"{PREFIX}{name}"))


def _values(page: MetricsPage, logger: str, name: str) -> Iterable[float]:
    for sample in page.samples:
        if sample.name == name and sample.labels.get("logger") == logger:
            yield sample.value
