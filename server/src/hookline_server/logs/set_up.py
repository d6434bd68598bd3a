"""Sets up the log of a server process."""

import logging
import os

from hookline_metrics.front_end_parts import LogStats
from hookline_processes.line_writer import LineWriter
from hookline_server.logs.config_file import LogConfig, apply_log_config
from hookline_server.logs.options import LogFormat, LogLevel
from hookline_server.logs.rate_limit import RateLimit
from hookline_server.logs.record_feed import Deliver, RecordFeed
from hookline_server.logs.redaction import MAX_LENGTH
from hookline_server.logs.rendering import LineRenderer
from hookline_server.logs.request_context import identify

ACCESS_LOGGER = "aiohttp.access"
STATE_LOGGER = "hookline_logging"

STANDARD_ERROR = 2

_LAST_LINES_SECONDS = 1.0


class ServerLog(logging.Handler):
    """Writes every record of the process to a file descriptor, from a thread.

    Logging never blocks: lines that nobody reads are dropped and counted. The records
    go to the stat loggers, too, once `feed` is called.
    """

    def __init__(
        self, log_format: LogFormat, descriptor: int, *, is_silent: bool = False
    ) -> None:
        """Starts the thread; a silent log writes nothing, and feeds stat loggers."""
        super().__init__()
        self._is_silent = is_silent
        renderer = LineRenderer(log_format, has_colors=os.isatty(descriptor))
        self._limit = RateLimit(frozenset({ACCESS_LOGGER, STATE_LOGGER}))
        self._writer = LineWriter(
            descriptor, renderer.render, render_dropped=renderer.render_dropped
        )
        self._feed = RecordFeed()
        self.addFilter(self._limit)
        self.addFilter(identify)

    def emit(self, record: logging.LogRecord) -> None:
        """Queues a record, without references to the objects of the call."""
        if record.args:
            record.msg, record.args = record.getMessage(), ()
        if isinstance(record.msg, str):
            record.msg = record.msg[: 2 * MAX_LENGTH]
        if record.exc_info:
            record.exc_text = _FORMATTER.formatException(record.exc_info)
            record.exc_info = None
        if not self._is_silent:
            self._writer.write(record, is_urgent=record.levelno >= logging.WARNING)
        self._feed.put(record)

    def feed(self, deliver: Deliver | None) -> None:
        """Passes all records so far and to come on; without `deliver`, to nobody."""
        if deliver is None:
            self._feed.discard()
        else:
            self._feed.start(deliver)

    def end_feed(self) -> None:
        """Passes on what waits, for at most a second; later records are not."""
        self._feed.close(_LAST_LINES_SECONDS)

    def stats(self) -> LogStats:
        """Returns how many lines were not written so far."""
        return LogStats(unread=self._writer.dropped, repeated=self._limit.left_out)

    def close(self) -> None:
        """Writes what waits, for at most a second, and ends the thread."""
        logging.root.removeHandler(self)
        self.end_feed()
        self._writer.close(_LAST_LINES_SECONDS)
        super().close()


_FORMATTER = logging.Formatter()


def set_up_log(
    level: LogLevel, log_format: LogFormat, config_file: str | None = None
) -> ServerLog:
    """Sends all log records of this process, from a level on, to standard error.

    Args:
        level: The minimum level.
        log_format: The format of the lines.
        config_file: The operator's own configuration, which goes before.

    Raises:
        ConfigError: As `apply_log_config`.
    """
    config = LogConfig() if config_file is None else apply_log_config(config_file)
    log = ServerLog(log_format, STANDARD_ERROR, is_silent=config.has_handlers)
    logging.root.addHandler(log)
    if not config.has_level:
        logging.root.setLevel(level.upper())
    logging.captureWarnings(capture=True)
    return log
