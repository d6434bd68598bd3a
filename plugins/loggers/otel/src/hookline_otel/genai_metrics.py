"""Histograms that the GenAI conventions define for model servers."""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from hookline.clock import NANOSECONDS, Clock
from hookline.stats.finished_request import FinishedRequest
from hookline_metrics import Exemplar, Family, HistogramValue, Kind, Sample
from hookline_metrics.front_end_parts import ServerAddress
from hookline_otel.attributes import PROVIDER
from hookline_otel.outcome import OTHER, error_type, is_success

Labels = tuple[str, ...]
KeptGenAi = dict[str, list[tuple[Labels, list[int], float]]]
"""By histogram, the counts and the sum of each series."""

LABELS = (
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.response.model",
    "error.type",
)
SERVER_LABELS = ("server.address", "server.port")
OPERATIONS = ("chat", "embeddings", "text_completion")
MAX_ERRORS = 32
"""Maximum number of values of `error.type`; further ones become `_OTHER`."""


@dataclass(slots=True)
class _Series:
    counts: list[int]
    sum: float = 0.0
    exemplars: dict[int, Exemplar] = field(default_factory=dict)


@dataclass(slots=True)
class _Histogram:
    """One of the conventions' histograms of seconds.

    Attributes:
        read: Returns a request's value, or None if it is not observed.
    """

    name: str
    help: str
    bounds: tuple[float, ...]
    read: Callable[[FinishedRequest], float | None]
    series: dict[Labels, _Series] = field(default_factory=dict)

    def observe(self, labels: Labels, request: FinishedRequest, at: float) -> None:
        if (value := self.read(request)) is None:
            return
        if (series := self.series.get(labels)) is None:
            series = self.series[labels] = _Series([0] * (len(self.bounds) + 1))
        bucket, facts = bisect_left(self.bounds, value), request.facts
        series.counts[bucket] += 1
        series.sum += value
        if facts.trace_id:
            series.exemplars[bucket] = Exemplar(
                facts.trace_id, value, at, facts.span_id
            )

    def family(self, server: Labels) -> Family:
        return Family(
            name=self.name,
            kind=Kind.HISTOGRAM,
            unit="seconds",
            help=self.help,
            label_names=(*LABELS, *SERVER_LABELS),
            samples=tuple(
                Sample(
                    (*labels, *server),
                    HistogramValue(
                        self.bounds,
                        tuple(series.counts),
                        series.sum,
                        dict(series.exemplars),
                    ),
                )
                for labels, series in self.series.items()
            ),
        )


class GenAiMetrics:
    """Histograms over finished requests; thread-safe.

    No client-chosen value is a label, so the number of series is small: operations ×
    the engines' models × at most `MAX_ERRORS` kinds of error. All are of one server.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._server: Labels = ("", "")
        self._lock = threading.Lock()
        self._histograms = _histograms()
        self._errors: set[str] = set()

    def serve_at(self, server: ServerAddress) -> None:
        """Adds the server's address to all series."""
        with self._lock:
            self._server = (server.host, str(server.port))

    def observe(self, requests: Sequence[FinishedRequest], model: str) -> None:
        """Adds finished requests; those that are traced become exemplars."""
        at = self._clock.wall() / NANOSECONDS
        with self._lock:
            for request in requests:
                labels = _labels(request, model, self._error(request))
                for histogram in self._histograms:
                    histogram.observe(labels, request, at)

    def _error(self, request: FinishedRequest) -> str:
        error = error_type(request)
        if error and error not in self._errors:
            if len(self._errors) >= MAX_ERRORS:
                return OTHER
            self._errors.add(error)
        return error

    def kept(self) -> KeptGenAi:
        """Returns what outlives the process."""
        with self._lock:
            return {
                histogram.name: [
                    (labels, [*series.counts], series.sum)
                    for labels, series in histogram.series.items()
                ]
                for histogram in self._histograms
            }

    def go_on(self, kept: KeptGenAi) -> None:
        """Goes on with what those of another process have kept."""
        for histogram in self._histograms:
            for labels, counts, total in kept.get(histogram.name, ()):
                histogram.series[labels] = _Series(counts, total)
                self._errors.update(labels[-1:])
        self._errors -= {"", OTHER}

    def families(self) -> Iterable[Family]:
        with self._lock:
            return [histogram.family(self._server) for histogram in self._histograms]


def _histograms() -> tuple[_Histogram, ...]:
    return (
        _Histogram(
            "gen_ai.server.request.duration",
            "Time from a request's arrival to its end, however it ended.",
            tuple(0.01 * 2**power for power in range(14)),
            lambda request: None if request.is_orphaned else request.e2e_seconds,
        ),
        _Histogram(
            "gen_ai.server.time_per_output_token",
            "Time per output token after the first one, of successful requests.",
            (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5),
            _time_per_output_token,
        ),
        _Histogram(
            "gen_ai.server.time_to_first_token",
            "Time from a request's arrival to its first token, of successful requests.",
            (
                *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1),
                *(0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
            ),
            lambda request: request.ttft_seconds if is_success(request) else None,
        ),
    )


def _time_per_output_token(request: FinishedRequest) -> float | None:
    """Seconds per output token by the conventions, the front end's time included."""
    first, later = request.ttft_seconds, request.output_tokens - 1
    if first is None or later < 1 or not is_success(request):
        return None
    return (request.e2e_seconds - first) / later


def _labels(request: FinishedRequest, model: str, error: str) -> Labels:
    operation = request.facts.operation
    known = operation if operation in OPERATIONS else OTHER
    return (known, PROVIDER, model, model, error)
