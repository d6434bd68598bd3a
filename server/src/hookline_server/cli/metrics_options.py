"""The options that make a `MetricsConfig`, but for tenants, whom only a server has."""

from hookline.config import MetricsConfig
from hookline_server.cli.observer_values import buckets, label, words
from hookline_server.cli.parser import Kind, Option

METRICS = "metrics"

_DEFAULTS = MetricsConfig()

METRICS_OPTIONS = (
    Option(
        flag="metrics-dialect",
        target="config.observers.metrics.dialects",
        group=METRICS,
        kind=Kind.WORDS,
        parse=words,
        metavar="NAME,…",
        help="names to expose the metrics under: hookline, vllm, sglang; may be "
        "repeated",
        default=",".join(_DEFAULTS.dialects),
    ),
    Option(
        flag="histogram-buckets",
        target="config.observers.metrics.histogram_buckets",
        group=METRICS,
        kind=Kind.MAP,
        parse=buckets,
        metavar="JSON",
        help='upper bounds, {"NAME": [NUMBERS]}, by histogram or family of buckets; '
        "may be repeated",
    ),
    Option(
        flag="include-metrics",
        target="config.observers.metrics.include",
        group=METRICS,
        kind=Kind.WORDS,
        parse=words,
        metavar="PATTERN,…",
        help="expose only metrics whose name fits; may be repeated (default: all)",
    ),
    Option(
        flag="exclude-metrics",
        target="config.observers.metrics.exclude",
        group=METRICS,
        kind=Kind.WORDS,
        parse=words,
        metavar="PATTERN,…",
        help="expose no metric whose name fits; may be repeated",
    ),
    Option(
        flag="metrics-label",
        target="config.observers.metrics.labels",
        group=METRICS,
        kind=Kind.MAP,
        parse=label,
        metavar="KEY=VALUE",
        help="a label on every series; may be repeated",
    ),
    Option(
        flag="show-hidden-metrics-for-version",
        target="config.observers.metrics.show_hidden_for_version",
        group=METRICS,
        metavar="X.Y",
        help="also expose the deprecated metrics that this version still showed",
    ),
)
