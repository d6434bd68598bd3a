"""The families `process_*` and `python_*` of prometheus_client.

Reading them takes 0.1 ms and a dozen system calls, each of which releases the
interpreter's lock. With a busy thread, getting it back can add tens of milliseconds to
a scrape. So the logger's thread reads the families with the engine's heartbeats, and a
scrape reads them only without heartbeats.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

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
from hookline_metrics import Family, Kind, Sample
from hookline_prometheus.exposition import MediaType
from hookline_prometheus.family_message import FamilyMessage
from hookline_prometheus.name_selection import Names, has_metric
from hookline_prometheus.options import Options

RENEWED_SECONDS = 0.5
"""Minimum age of a reading before a state change, such as a heartbeat, replaces it."""

KEPT_SECONDS = 2.0
"""Maximum age of a reading that is served."""


@dataclass(frozen=True, slots=True)
class _Families:
    """Families that prometheus_client can render."""

    metrics: tuple[Metric, ...]

    def collect(self) -> Iterable[Metric]:
        return self.metrics

    def rendered(self, media_type: MediaType) -> bytes:
        if media_type is MediaType.PROTOBUF:
            return b"".join(map(_message, self.metrics))
        # The escaping of prometheus_client 0.23 to 0.26 breaks names with colons.
        generate: Callable[..., bytes] = (
            generate_openmetrics
            if media_type is MediaType.OPENMETRICS
            else generate_text
        )
        return generate(self, escaping="allow-utf-8")


def _explained(metric: Metric) -> Metric:
    """Adds which process a family describes, as there may be several."""
    if metric.name.startswith("process_"):  # these are made anew for each reading
        metric.documentation += (
            " Of the process that serves this page; hookline_process_ metrics are of "
            "all."
        )
    return metric


def _message(metric: Metric) -> bytes:
    """Encodes a family, whose samples all have the same label names."""
    kind = Kind(metric.type)
    name = f"{metric.name}_total" if kind is Kind.COUNTER else metric.name
    samples = [sample for sample in metric.samples if sample.name == name]
    if not samples:
        return b""
    family = Family(
        name=metric.name,
        kind=kind,
        unit=metric.unit,
        help=metric.documentation,
        label_names=tuple(samples[0].labels),
        samples=tuple(
            Sample(tuple(sample.labels.values()), sample.value) for sample in samples
        ),
    )
    return FamilyMessage(family, Options()).render(family.samples)


class _Reading:
    """A reading of the families, with its rendered pages cached by format."""

    def __init__(self, metrics: Iterable[Metric], at: int) -> None:
        self.at = at
        self._families = _Families(tuple(map(_explained, metrics)))
        self._pages: dict[MediaType, bytes] = {}

    def page(self, media_type: MediaType) -> bytes:
        page = self._pages.get(media_type)
        if page is None:
            page = self._pages[media_type] = self._families.rendered(media_type)
        return page

    def selection(self, media_type: MediaType, names: Names) -> bytes:
        metrics = self._families.metrics
        chosen = tuple(metric for metric in metrics if has_metric(names, metric))
        return _Families(chosen).rendered(media_type)


class ProcessFamilies:
    """Keeps the latest reading; lock-free, since a reading is replaced as a whole."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._reading = self._read()

    def renew(self) -> None:
        """Reads the families if the last reading is older than `RENEWED_SECONDS`."""
        if self._is_older(RENEWED_SECONDS):
            self._reading = self._read()

    def render(self, media_type: MediaType) -> bytes:
        """Renders the families' lines and the format's end, if it has one."""
        return self._fresh_reading().page(media_type)

    def select(self, media_type: MediaType, names: Names) -> bytes:
        """Renders the selected families' lines and the format's end marker."""
        return self._fresh_reading().selection(media_type, names)

    def _fresh_reading(self) -> _Reading:
        if self._is_older(KEPT_SECONDS):
            self._reading = self._read()
        return self._reading

    def _is_older(self, seconds: float) -> bool:
        return self._clock.now() - self._reading.at >= seconds * NANOSECONDS

    def _read(self) -> _Reading:
        return _Reading(self._registry.collect(), self._clock.now())
