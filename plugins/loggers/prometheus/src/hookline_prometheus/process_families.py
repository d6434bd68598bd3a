"""The families `process_*` and `python_*`, as prometheus_client makes them.

Reading them costs a tenth of a millisecond and a dozen system calls. Each of these lets
go of the interpreter, and a busy thread gives it back only milliseconds later: tens of
milliseconds altogether, which a scrape had better not wait for. So the logger's own
thread renews them with the engine's heartbeats; a page does it only where those stay
away.
"""

from collections.abc import Callable, Iterable

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    Metric,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.exposition import generate_latest as generate_text
from prometheus_client.openmetrics.exposition import (
    generate_latest as generate_openmetrics,
)

from hookline.clock import NANOSECONDS, Clock
from hookline_prometheus.exposition import MediaType

RENEWED_SECONDS = 0.5
"""A heartbeat renews what is older: every one does, few changes of state do."""

KEPT_SECONDS = 2.0
"""Older ones are shown on no page."""


class _Reading:
    """The families at one moment, in every format they have been asked for in."""

    def __init__(self, metrics: Iterable[Metric], at: int) -> None:
        self.at = at
        self._metrics = tuple(metrics)
        self._pages: dict[MediaType, bytes] = {}

    def collect(self) -> Iterable[Metric]:
        return self._metrics

    def page(self, media_type: MediaType) -> bytes:
        page = self._pages.get(media_type)
        if page is None:
            page = self._pages[media_type] = self._rendered(media_type)
        return page

    def _rendered(self, media_type: MediaType) -> bytes:
        # Escaping names, prometheus_client 0.23 to 0.26 spoils those with colons.
        generate: Callable[..., bytes] = (
            generate_openmetrics
            if media_type is MediaType.OPENMETRICS
            else generate_text
        )
        return generate(self, escaping="allow-utf-8")


class ProcessFamilies:
    """Keeps the newest reading; takes no lock, since readings are replaced whole."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._reading = self._read()

    def renew(self) -> None:
        """Reads the families if that was not done just now."""
        if self._is_older(RENEWED_SECONDS):
            self._reading = self._read()

    def render(self, media_type: MediaType) -> bytes:
        """Their lines, and the format's last line."""
        if self._is_older(KEPT_SECONDS):
            self._reading = self._read()
        return self._reading.page(media_type)

    def _is_older(self, seconds: float) -> bool:
        return self._clock.now() - self._reading.at >= seconds * NANOSECONDS

    def _read(self) -> _Reading:
        return _Reading(self._registry.collect(), self._clock.now())
