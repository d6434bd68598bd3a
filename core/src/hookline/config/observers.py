"""Configuration of stat loggers and of the measurements for them."""

from dataclasses import dataclass
from enum import StrEnum

from hookline.config.options import check_options, option
from hookline.config.readers import read_plugin_option, read_slo
from hookline.exceptions import ConfigError
from hookline.request import Slo


class DetailedTrace(StrEnum):
    MODEL = "model"
    WORKER = "worker"
    ALL = "all"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverConfig:
    """The stat loggers, and the limits that isolate the engine from them.

    Attributes:
        lane_batches: Capacity of each logger's lane, in step batches.
        breaker_failures: Consecutive errors after which a logger's breaker opens.
        breaker_seconds: Time after which an open breaker lets one batch through.
        linger_seconds: Maximum time that a lane gathers batches for one delivery.
    """

    stat_loggers: tuple[str, ...] = option(
        "Installed stat logger, or module:Class, besides the default ones; none "
        "leaves these out.",
        default=(),
        flag="stat-logger",
        metavar="NAME",
        shown_default="prometheus, logging, flight_recorder and insight for serve, "
        "otherwise none",
    )
    options: dict[str, dict[str, str]] = option(
        "Option of a stat logger.",
        default_factory=dict,
        flag="stat-logger-option",
        metavar="NAME.KEY=VALUE",
        read=read_plugin_option,
    )
    lane_batches: int = 1024
    breaker_failures: int = 5
    breaker_seconds: float = 30.0
    heartbeat_seconds: float = option(
        "Maximum time between two reports of the engine's state to the loggers.",
        default=1.0,
        metavar="SECONDS",
        above=0,
    )
    linger_seconds: float = 0.1
    page_wait_seconds: float = option(
        "Maximum time that a stat logger's page, such as /metrics, waits for all "
        "processes to tell what has happened, and again for the logger to get it.",
        default=0.005,
        metavar="SECONDS",
        minimum=0,
    )
    slo: Slo | None = option(
        "Service-level objectives of requests without their own, such as "
        "ttft=0.5,tpot=0.05,e2e=10.",
        default=None,
        metavar="NAME=SECONDS,…",
        read=read_slo,
    )
    detailed_traces: tuple[DetailedTrace, ...] = option(
        "Measure the model's forward pass (model) and the executor (worker) for "
        "every request; none spares about a tenth of a microsecond for each "
        "request and step.",
        default=(DetailedTrace.ALL,),
        flag="collect-detailed-traces",
        group="traces",
        metavar=",".join(DetailedTrace),
        commas=True,
    )
    keep_prompts: bool = option(
        "Pass the token ids of prompts and outputs to the stat loggers.", default=False
    )
    observer_process: bool = option(
        "Run the stat loggers in a process of their own, so that one that holds "
        "the interpreter slows nothing else. Servers only.",
        default=False,
    )
    trace_ratio: float | None = option(
        "Fraction of the requests without trace context that are traced.",
        default=None,
        group="traces",
        metavar="FRACTION",
        minimum=0,
        maximum=1,
    )

    def __post_init__(self) -> None:
        check_options(self)
        for name in ("lane_batches", "breaker_failures"):
            if getattr(self, name) < 1:
                raise ConfigError(name.replace("_", "-"), "must be at least 1")
        if not 0 <= self.linger_seconds <= 1:
            raise ConfigError("linger-seconds", "must be 0 to 1")
        if DetailedTrace.NONE in self.detailed_traces and self.has_details:
            raise ConfigError(
                "collect-detailed-traces", "none excludes all other values"
            )

    @property
    def has_details(self) -> bool:
        """Whether any detailed traces are collected."""
        return any(part is not DetailedTrace.NONE for part in self.detailed_traces)

    def details(self, part: DetailedTrace) -> bool:
        """Whether detailed traces of this part are collected."""
        collected = self.detailed_traces
        return part in collected or DetailedTrace.ALL in collected
