"""The options of the stat loggers, of traces, and of what is measured for them."""

from hookline.config import DetailedTrace, ObserverConfig
from hookline_server.cli.observer_values import (
    DEFAULT_SAMPLE,
    detailed_traces,
    objectives,
)
from hookline_server.cli.parser import Kind, Option
from hookline_server.cli.values import number

CACHE = "KV cache"
OBSERVERS = "stat loggers"
TRACES = "traces"

TRACES_ENDPOINT = "logger.otel.traces_endpoint"
METRICS_ENDPOINT = "logger.otel.metrics_endpoint"

_DEFAULTS = ObserverConfig()

OBSERVER_OPTIONS = (
    Option(
        flag="stat-logger",
        target="run.stat_loggers",
        group=OBSERVERS,
        kind=Kind.LIST,
        metavar="NAME",
        help="an installed logger, or module:Class; may be repeated; none for none "
        "(default: for serve prometheus and logging, for generate none)",
    ),
    Option(
        flag="stat-logger-option",
        target="run.stat_logger_options",
        group=OBSERVERS,
        kind=Kind.LIST,
        metavar="NAME.KEY=VALUE",
        help="an option of a logger; may be repeated",
    ),
    Option(
        flag="heartbeat-seconds",
        target="config.observers.heartbeat_seconds",
        group=OBSERVERS,
        parse=number,
        metavar="SECONDS",
        help="the loggers hear of the engine's state at least this often",
        default=f"{_DEFAULTS.heartbeat_seconds:g}",
    ),
    Option(
        flag="slo",
        target="config.observers.slo",
        group=OBSERVERS,
        parse=objectives,
        metavar="NAME=SECONDS,…",
        help="what every request is promised, such as ttft=0.5,tpot=0.05,e2e=10",
    ),
    Option(
        flag="keep-prompts",
        target="config.observers.keep_prompts",
        group=OBSERVERS,
        kind=Kind.FLAG,
        help="let the loggers have the token ids of prompts and outputs",
    ),
    Option(
        flag="otlp-traces-endpoint",
        target=TRACES_ENDPOINT,
        group=TRACES,
        metavar="URL",
        help="send traces there; also chooses the stat logger otel",
    ),
    Option(
        flag="otlp-metrics-endpoint",
        target=METRICS_ENDPOINT,
        group=TRACES,
        metavar="URL",
        help="send metrics there; also chooses the stat logger otel",
    ),
    Option(
        flag="otlp-traces-sample",
        target="config.observers.trace_ratio",
        group=TRACES,
        parse=number,
        metavar="RATIO",
        help="share of the requests without a trace of their own that are traced",
        default="1",
    ),
    Option(
        flag="collect-detailed-traces",
        target="config.observers.detailed_traces",
        group=TRACES,
        kind=Kind.WORDS,
        parse=detailed_traces,
        metavar=",".join(DetailedTrace),
        help="measure the model's forward pass (model) and the executor (worker) for "
        "each request; may be repeated",
    ),
)

RESIDENCY_OPTIONS = (
    Option(
        flag="kv-cache-metrics",
        target="run.kv_cache_metrics",
        group=CACHE,
        kind=Kind.FLAG,
        help=f"measure how long {DEFAULT_SAMPLE:.0%} of the blocks live, idle, and "
        "wait for their next use",
    ),
    Option(
        flag="kv-cache-metrics-sample",
        target="config.cache.residency_sample",
        group=CACHE,
        parse=number,
        metavar="SHARE",
        help="measure this share of the blocks rather",
    ),
)
