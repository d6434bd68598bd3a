"""Stat logger `prometheus`: the metrics catalogue on `/metrics`."""

from hookline.hookspecs import hookimpl
from hookline.payloads import CliOptions, LoggerContext
from hookline_prometheus.logger import PrometheusLogger
from hookline_prometheus.options import HELP, Options

__all__ = ["PrometheusLogger", "add_cli_options", "create_stat_logger"]


@hookimpl
def add_cli_options(options: CliOptions) -> None:
    for name, (text, default) in HELP.items():
        options.add(name, help=text, default=default)


@hookimpl
def create_stat_logger(context: LoggerContext) -> PrometheusLogger:
    options = Options.read(context)
    return PrometheusLogger(context.config, options, kept=context.kept)
