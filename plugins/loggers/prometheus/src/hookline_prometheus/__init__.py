"""Stat logger `prometheus`: the metrics catalogue on `/metrics`."""

from hookline.exceptions import ConfigError
from hookline.hookspecs import hookimpl
from hookline.payloads import LoggerContext
from hookline_prometheus.logger import PrometheusLogger

__all__ = ["PrometheusLogger", "create_stat_logger"]


@hookimpl
def create_stat_logger(context: LoggerContext) -> PrometheusLogger:
    if context.options:
        option = f"{context.name}.{min(context.options)}"
        raise ConfigError(option, f"no such option; {context.name} takes none")
    return PrometheusLogger(context.config)
