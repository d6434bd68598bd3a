"""Stat logger `otel`: traces, metrics and the server's log over OTLP.

Importing this module does not import OpenTelemetry: the command line imports it only to
show the options.
"""

import os
import sys

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
    # A host program that has set a provider has imported this.
    has_host = "opentelemetry.trace" in sys.modules and _has_host_provider()
    options = Options.read(context, os.environ, has_host=has_host)
    from hookline_otel.building import build_logger  # noqa: PLC0415 - is slow to import

    return build_logger(context, options)


def _has_host_provider() -> bool:
    from opentelemetry import trace  # noqa: PLC0415 - has been imported

    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
