"""A private structlog logger, independent of the program's configuration."""

import logging
from typing import TextIO, cast

import structlog
from structlog.typing import FilteringBoundLogger, Processor

from hookline_logging.options import LineFormat


def make_log(line_format: LineFormat, stream: TextIO) -> FilteringBoundLogger:
    """Returns a logger that writes to `stream` and has its own configuration."""
    renderer: Processor
    if line_format is LineFormat.JSON:
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(
            colors=stream.isatty(), sort_keys=False
        )
    log = structlog.wrap_logger(
        structlog.PrintLogger(stream),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        context_class=dict,
        cache_logger_on_first_use=True,
    )
    return cast("FilteringBoundLogger", log)
