"""Which exposition format a scrape gets.

Every name on the page is a legal one of the classic character set, colons included, and
such a name is the same under the escapings `underscores` and `allow-utf-8`. So names
are never escaped, and a format is a matter of its media type alone.
"""

from dataclasses import dataclass
from enum import StrEnum

_NEVER = "allow-utf-8"


class MediaType(StrEnum):
    TEXT = "text/plain"
    OPENMETRICS = "application/openmetrics-text"


@dataclass(frozen=True, slots=True)
class Format:
    """One way to expose metrics.

    Attributes:
        media_type: Text or OpenMetrics.
        content_type: Of the answer.
    """

    media_type: MediaType
    content_type: str


def choose_format(accept: str) -> Format:
    """The best-liked format among those there are; classic text if none is named."""
    ranges = [_MediaRange.parse(part) for part in accept.split(",")]
    for wanted in sorted(ranges, key=lambda item: item.quality, reverse=True):
        if wanted.quality > 0 and (found := _format_of(wanted)):
            return found
    return Format(MediaType.TEXT, "text/plain; version=0.0.4; charset=utf-8")


@dataclass(frozen=True, slots=True)
class _MediaRange:
    """One part of an Accept header."""

    media_type: str
    parameters: dict[str, str]
    quality: float

    @classmethod
    def parse(cls, text: str) -> "_MediaRange":
        media_type, *rest = (part.strip() for part in text.split(";"))
        pairs = (part.partition("=") for part in rest)
        parameters = {
            key.strip().lower(): value.strip().strip('"') for key, _, value in pairs
        }
        return cls(media_type.lower(), parameters, _quality(parameters.pop("q", "1")))


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _format_of(wanted: _MediaRange) -> Format | None:
    version = wanted.parameters.get("version", "")
    escaping = wanted.parameters.get("escaping", "")
    told = f"; escaping={escaping if escaping == _NEVER else 'underscores'}"
    if wanted.media_type == MediaType.OPENMETRICS and version in {"", "1.0.0"}:
        content_type = f"{MediaType.OPENMETRICS}; version=1.0.0; charset=utf-8"
        return Format(MediaType.OPENMETRICS, content_type + (told if version else ""))
    if wanted.media_type == MediaType.TEXT and version == "1.0.0":
        content_type = "text/plain; version=1.0.0; charset=utf-8" + told
        return Format(MediaType.TEXT, content_type)
    if wanted.media_type in {MediaType.TEXT, "text/*", "*/*"}:
        return Format(MediaType.TEXT, "text/plain; version=0.0.4; charset=utf-8")
    return None
