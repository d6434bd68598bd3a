"""Readers of the values of benchmark options."""

import math

from hookline_server.cli.options.derived import number


def rate(text: str) -> float:
    """Reads requests per second, or `inf`."""
    return math.inf if text.strip() == "inf" else number(text)


def pair(text: str) -> dict[str, str]:
    """Reads `KEY=VALUE`; the value may be empty."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise ValueError(f"{text!r} is not KEY=VALUE")
    return {key.strip(): value.strip()}


def goodput(text: str) -> dict[str, float]:
    """Reads `ttft:200,tpot:30`, in milliseconds."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, colon, most = part.partition(":")
        if not (name and colon):
            raise ValueError(f"{part!r} is not NAME:MILLISECONDS")
        found[name.strip()] = number(most)
    return found
