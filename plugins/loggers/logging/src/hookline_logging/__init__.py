"""Stat logger `logging`: a log line with the engine's state every few seconds."""

import sys

from hookline.clock import SystemClock
from hookline.hookspecs import hookimpl
from hookline.payloads import CliOptions, LoggerContext
from hookline_logging.logger import StateLogger
from hookline_logging.options import LineFormat, Options
from hookline_logging.output import make_log

__all__ = ["LineFormat", "StateLogger", "add_cli_options", "create_stat_logger"]


@hookimpl
def add_cli_options(options: CliOptions) -> None:
    defaults = Options()
    options.add(
        "interval",
        help="seconds between two lines of the log",
        default=f"{defaults.interval_seconds:g}",
    )
    options.add(
        "format",
        help="how lines are written: auto (to the program's log if it has one, such as "
        "the server's, otherwise as console), console or json (to standard error)",
        default=defaults.format.value,
    )


@hookimpl
def create_stat_logger(context: LoggerContext) -> StateLogger:
    options = Options.read(context)
    log = make_log(options.format, sys.stderr)
    return StateLogger(log, SystemClock(), interval_seconds=options.interval_seconds)
