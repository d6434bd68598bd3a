"""Stat logger `prometheus`: the metrics catalogue on `/metrics`."""

from hookline.hookspecs import hookimpl
from hookline.payloads import CliOptions, LoggerContext
from hookline_prometheus.logger import PrometheusLogger
from hookline_prometheus.options import CREATED_SERIES, DEFAULT, HELP, Options

__all__ = ["PrometheusLogger", "add_cli_options", "create_stat_logger"]


@hookimpl
def add_cli_options(options: CliOptions) -> None:
    options.add(CREATED_SERIES, help=HELP, default=DEFAULT)


@hookimpl
def create_stat_logger(context: LoggerContext) -> PrometheusLogger:
    return PrometheusLogger(context.config, Options.read(context))
