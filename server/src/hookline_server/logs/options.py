"""Options of the log."""

from enum import StrEnum


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """Format of the log: text for people, or one JSON object per line."""

    CONSOLE = "console"
    JSON = "json"
