"""Parses the headers Accept and Accept-Encoding."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Accepted:
    """One element of the header.

    Attributes:
        name: Media type or content coding in lower case; may be a wildcard.
        parameters: Parameters by lower-case name, without the quality.
        quality: From 0, not acceptable, to 1.
    """

    name: str
    parameters: dict[str, str]
    quality: float


def parse(header: str) -> Sequence[Accepted]:
    """Returns the header's elements in their order."""
    return [_element(part) for part in header.split(",")]


def _element(text: str) -> Accepted:
    name, *rest = (part.strip() for part in text.split(";"))
    pairs = (part.partition("=") for part in rest)
    parameters = {
        key.strip().lower(): value.strip().strip('"') for key, _, value in pairs
    }
    quality = _quality(parameters.pop("q", "1"))
    return Accepted(name.lower(), parameters, quality)


def _quality(text: str) -> float:
    """Returns the quality, or 0 for what is not a number from 0 to 1."""
    try:
        quality = float(text)
    except ValueError:
        return 0.0
    return quality if 0 <= quality <= 1 else 0.0
