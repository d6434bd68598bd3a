"""Stat logger `prometheus`: the metrics catalogue on `/metrics`."""

from hookline.hookspecs import hookimpl
from hookline.payloads import CliOptions, LoggerContext
from hookline_prometheus.logger import PrometheusLogger
from hookline_prometheus.options import DEFAULT_DIALECTS, read_dialects

__all__ = ["PrometheusLogger", "add_cli_options", "create_stat_logger"]


@hookimpl
def add_cli_options(options: CliOptions) -> None:
    options.add(
        "dialects",
        help="names to expose the metrics under, separated by commas",
        default=DEFAULT_DIALECTS,
    )


@hookimpl
def create_stat_logger(context: LoggerContext) -> PrometheusLogger:
    return PrometheusLogger(read_dialects(context))
