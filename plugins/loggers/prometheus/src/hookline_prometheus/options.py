"""The logger's options."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from hookline.exceptions import ConfigError
from hookline.payloads import LoggerContext
from hookline_metrics import schema_of

CREATED_SERIES = "created_series"
BUCKET_FACTOR = "native_histogram_bucket_factor"
MAX_BUCKETS = "native_histogram_max_buckets"
FEWEST_BUCKETS, MOST_BUCKETS = 8, 100_000
"""The coarsest resolution needs fewer than 8 buckets, the finest fewer than 100 000."""

HELP: Mapping[str, tuple[str, str]] = {
    CREATED_SERIES: (
        "whether pages have times of creation, since when each count runs: true, false",
        "false",
    ),
    BUCKET_FACTOR: (
        "maximum growth from bucket to bucket of native histograms; 1 for none of them",
        "1.1",
    ),
    MAX_BUCKETS: (
        "maximum buckets of a native histogram, which become wider if there are more",
        "160",
    ),
}
"""Help text and default of each option."""


@dataclass(frozen=True, slots=True)
class Options:
    """What is on the page.

    Attributes:
        has_created_series: Whether OpenMetrics pages have `_created` samples.
        native_schema: Initial resolution of native histograms; None for none.
        native_max_buckets: The resolution is halved when there are more buckets.
    """

    has_created_series: bool = False
    native_schema: int | None = 3
    native_max_buckets: int = 160

    @classmethod
    def read(cls, context: LoggerContext) -> Self:
        """Parses the options.

        Raises:
            ConfigError: An option is unknown or its value is invalid.
        """
        given, name = context.options, context.name
        if unknown := sorted(set(given) - set(HELP)):
            known = ", ".join(HELP)
            raise ConfigError(
                f"{name}.{unknown[0]}", f"no such option; options: {known}"
            )

        def text(option: str) -> tuple[str, str]:
            return f"{name}.{option}", given.get(option, HELP[option][1])

        return cls(
            has_created_series=_is_true(*text(CREATED_SERIES)),
            native_schema=_schema(*text(BUCKET_FACTOR)),
            native_max_buckets=_buckets(*text(MAX_BUCKETS)),
        )


def _is_true(option: str, text: str) -> bool:
    if text not in {"true", "false"}:
        raise ConfigError(option, f"must be true or false, not {text!r}")
    return text == "true"


def _schema(option: str, text: str) -> int | None:
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 1 <= factor <= 2**16:
        raise ConfigError(option, f"must be a number from 1 to 65536, not {text!r}")
    return None if factor == 1 else schema_of(factor)


def _buckets(option: str, text: str) -> int:
    count = int(text) if text.isdecimal() and len(text) < 9 else 0
    if not FEWEST_BUCKETS <= count <= MOST_BUCKETS:
        raise ConfigError(
            option,
            f"must be a whole number from {FEWEST_BUCKETS} to {MOST_BUCKETS}, "
            f"not {text!r}",
        )
    return count
