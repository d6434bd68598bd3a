"""Chooses the exposition format of a scrape from its Accept header.

All metric names use the classic character set, colons included, which the escapings
`underscores` and `allow-utf-8` leave unchanged. So names are never escaped, and the
media type alone determines the format.
"""

from dataclasses import dataclass
from enum import StrEnum

from hookline_prometheus.accept import Accepted, parse

_NEVER = "allow-utf-8"


class MediaType(StrEnum):
    TEXT = "text/plain"
    OPENMETRICS = "application/openmetrics-text"
    PROTOBUF = "application/vnd.google.protobuf"


MESSAGE = "io.prometheus.client.MetricFamily"
"""What a page in protobuf is a sequence of, each after its length."""


@dataclass(frozen=True, slots=True)
class Format:
    """An exposition format.

    Attributes:
        media_type: Text, OpenMetrics or protobuf.
        content_type: Content-Type of the response.
    """

    media_type: MediaType
    content_type: str


def choose_format(accept: str) -> Format:
    """Returns the client's most preferred format, classic text if none matches."""
    ranges = sorted(parse(accept), key=lambda each: each.quality, reverse=True)
    for accepted in ranges:
        if accepted.quality > 0 and (found := _format_of(accepted)):
            return found
    return Format(MediaType.TEXT, "text/plain; version=0.0.4; charset=utf-8")


def _format_of(accepted: Accepted) -> Format | None:
    version = accepted.parameters.get("version", "")
    escaping = accepted.parameters.get("escaping", "")
    suffix = f"; escaping={escaping if escaping == _NEVER else 'underscores'}"
    if accepted.name == MediaType.OPENMETRICS and version in {"", "1.0.0"}:
        content_type = f"{MediaType.OPENMETRICS}; version=1.0.0; charset=utf-8"
        return Format(MediaType.OPENMETRICS, content_type + (suffix if version else ""))
    if _is_protobuf(accepted):
        content_type = f"{MediaType.PROTOBUF}; proto={MESSAGE}; encoding=delimited"
        return Format(MediaType.PROTOBUF, content_type + (suffix if escaping else ""))
    if accepted.name == MediaType.TEXT and version == "1.0.0":
        content_type = "text/plain; version=1.0.0; charset=utf-8" + suffix
        return Format(MediaType.TEXT, content_type)
    if accepted.name in {MediaType.TEXT, "text/*", "*/*"}:
        return Format(MediaType.TEXT, "text/plain; version=0.0.4; charset=utf-8")
    return None


def _is_protobuf(accepted: Accepted) -> bool:
    """Tells whether the client asks for exactly the messages and lengths we write."""
    parameters = accepted.parameters
    return (
        accepted.name == MediaType.PROTOBUF
        and parameters.get("proto") == MESSAGE
        and parameters.get("encoding") == "delimited"
    )
