"""Stat logger `otel`: traces, metrics and the server's log over OTLP.

Importing this module does not import OpenTelemetry: the command line imports it only to
show the options.
"""

import os

from hookline.hookspecs import hookimpl
from hookline.payloads import CliOptions, LoggerContext
from hookline_otel.options import HELP, Options

__all__ = ["Options", "add_cli_options", "create_stat_logger"]


@hookimpl
def add_cli_options(options: CliOptions) -> None:
    for key, (text, default) in HELP.items():
        options.add(key, help=text, default=default)


@hookimpl
def create_stat_logger(context: LoggerContext) -> object:
    options = Options.read(context, os.environ)
    from hookline_otel.building import build_logger  # noqa: PLC0415 - is slow to import

    return build_logger(context, options)
