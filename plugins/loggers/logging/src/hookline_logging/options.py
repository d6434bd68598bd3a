"""The logger's options."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from hookline.exceptions import ConfigError
from hookline.payloads import LoggerContext


class LineFormat(StrEnum):
    """Where lines go: to the program's log if it has one, or to standard error."""

    AUTO = "auto"
    CONSOLE = "console"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Options:
    """Interval and format of the lines.

    Attributes:
        interval_seconds: Seconds between two lines.
        format: Format of the lines.
    """

    interval_seconds: float = 5.0
    format: LineFormat = LineFormat.AUTO

    @classmethod
    def read(cls, context: LoggerContext) -> Self:
        """Parses the options.

        Raises:
            ConfigError: An option is unknown or its value is invalid.
        """
        given = dict(context.options)
        name = context.name
        interval = _interval(f"{name}.interval", given.pop("interval", "5"))
        line_format = _format(f"{name}.format", given.pop("format", "auto"))
        if given:
            raise ConfigError(
                f"{name}.{min(given)}", "no such option; options: format, interval"
            )
        return cls(interval, line_format)


def _interval(option: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError as error:
        raise ConfigError(option, f"{text!r} is not a number of seconds") from error
    if not (math.isfinite(seconds) and seconds > 0):
        raise ConfigError(option, f"must be above 0 seconds and finite, not {text}")
    return seconds


def _format(option: str, text: str) -> LineFormat:
    try:
        return LineFormat(text)
    except ValueError as error:
        known = ", ".join(LineFormat)
        raise ConfigError(option, f"unknown format {text!r}; known: {known}") from error
