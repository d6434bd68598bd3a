"""The logger's options."""

from dataclasses import dataclass
from typing import Self

from hookline.exceptions import ConfigError
from hookline.payloads import LoggerContext

CREATED_SERIES = "created_series"
DEFAULT = "false"
HELP = (
    "whether OpenMetrics pages have _created samples, the time since which each count "
    "runs: true or false"
)


@dataclass(frozen=True, slots=True)
class Options:
    """What is on the page.

    Attributes:
        has_created_series: Whether OpenMetrics pages have `_created` samples.
    """

    has_created_series: bool = False

    @classmethod
    def read(cls, context: LoggerContext) -> Self:
        """Parses the options.

        Raises:
            ConfigError: An option is unknown or its value is invalid.
        """
        given = dict(context.options)
        text = given.pop(CREATED_SERIES, DEFAULT)
        if given:
            raise ConfigError(
                f"{context.name}.{min(given)}",
                f"no such option; options: {CREATED_SERIES}",
            )
        if text not in {"true", "false"}:
            raise ConfigError(
                f"{context.name}.{CREATED_SERIES}",
                f"must be true or false, not {text!r}",
            )
        return cls(has_created_series=text == "true")
