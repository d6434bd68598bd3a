"""The structlog logger that writes the lines; it changes no global configuration."""

import logging
from typing import TextIO, cast

import structlog
from structlog.typing import FilteringBoundLogger, Processor

from hookline_logging.options import LineFormat

LOGGER = "hookline_logging"


def make_log(line_format: LineFormat, stream: TextIO) -> FilteringBoundLogger:
    """Returns a logger that writes to the program's log, or to `stream`."""
    program = logging.getLogger(LOGGER)
    if line_format is LineFormat.AUTO and program.hasHandlers():
        return _wrapped(program, structlog.stdlib.render_to_log_kwargs)
    renderer: Processor
    if line_format is LineFormat.JSON:
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(
            colors=stream.isatty(), sort_keys=False
        )
    return _wrapped(
        structlog.PrintLogger(stream),
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        renderer,
    )


def _wrapped(output: object, *processors: Processor) -> FilteringBoundLogger:
    log = structlog.wrap_logger(
        output,
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        context_class=dict,
        cache_logger_on_first_use=True,
    )
    return cast("FilteringBoundLogger", log)
