"""Which stat loggers listen, and what is measured for them."""

from dataclasses import dataclass, field
from enum import StrEnum

from hookline.config.checks import check_positive
from hookline.exceptions import ConfigError
from hookline.slo import Slo


class DetailedTrace(StrEnum):
    MODEL = "model"
    WORKER = "worker"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsConfig:
    """Which metrics there are, under which names, labels and buckets.

    Every logger that reads the catalogue obeys it.

    Attributes:
        dialects: Sets of names to expose.
        histogram_buckets: Upper bounds by bucket family or by metric, in any dialect's
            name.
        include: Patterns (`*`, `?`) of names to expose; all if empty.
        exclude: Patterns of names not to expose; wins over `include`.
        labels: Constant labels on every series.
        show_hidden_for_version: Also expose the deprecated names that this version
            (`X.Y`) still showed.
        tenants: Tenants that get a label value of their own; if empty, the first
            `max_tenants` that come.
        max_tenants: Most values of the label `tenant`, `other` and `none` not counted;
            0 leaves tenants out of the metrics.
    """

    dialects: tuple[str, ...] = ("hookline", "vllm")
    histogram_buckets: dict[str, tuple[float, ...]] = field(default_factory=dict)
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    show_hidden_for_version: str | None = None
    tenants: tuple[str, ...] = ()
    max_tenants: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.max_tenants <= MOST_TENANTS:
            raise ConfigError("max-tenants", f"must be 0 to {MOST_TENANTS}")


MOST_TENANTS = 100
"""Each has some fifty series, and a page must stay quick to make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverConfig:
    """Which stat loggers listen, and how they are kept from doing harm.

    Attributes:
        stat_loggers: Names of installed loggers, or `module:Class`.
        options: For each logger its options, as text.
        lane_batches: Bound of each logger's lane, in step batches.
        breaker_failures: So many consecutive errors open a logger's breaker.
        breaker_seconds: After so long an open breaker lets one batch through.
        heartbeat_seconds: State is published at least this often.
        linger_seconds: So long a lane may gather batches to deliver them together.
        metrics: Of the catalogue.
        slo: What every request is promised, unless it brings its own.
        detailed_traces: Measure the forward pass and the executor for each request.
        keep_prompts: Give finished requests their token ids, for loggers that write
            them down.
        trace_ratio: Share of the requests without a trace of their own that are
            traced, 0 to 1; None where nobody takes traces.
    """

    stat_loggers: tuple[str, ...] = ()
    options: dict[str, dict[str, str]] = field(default_factory=dict)
    lane_batches: int = 1024
    breaker_failures: int = 5
    breaker_seconds: float = 30.0
    heartbeat_seconds: float = 1.0
    linger_seconds: float = 0.1
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    slo: Slo | None = None
    detailed_traces: tuple[DetailedTrace, ...] = ()
    keep_prompts: bool = False
    trace_ratio: float | None = None

    def __post_init__(self) -> None:
        check_positive("lane-batches", self.lane_batches)
        check_positive("breaker-failures", self.breaker_failures)
        if self.heartbeat_seconds <= 0:
            raise ConfigError("heartbeat-seconds", "must be above 0")
        if not 0 <= self.linger_seconds <= 1:
            raise ConfigError("linger-seconds", "must be 0 to 1")
        if self.trace_ratio is not None and not 0 <= self.trace_ratio <= 1:
            raise ConfigError("otlp-traces-sample", "must be 0 to 1")

    def details(self, part: DetailedTrace) -> bool:
        """Whether detailed traces of this part are wanted."""
        wanted = self.detailed_traces
        return part in wanted or DetailedTrace.ALL in wanted
