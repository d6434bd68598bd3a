"""Readers of the values of benchmark options."""

import argparse
import json
import math

from hookline_server.cli.values import number


def rate(text: str) -> float:
    """Requests a second, or `inf`."""
    return math.inf if text.strip() == "inf" else number(text)


def names(text: str) -> list[str]:
    """`a,b,c`."""
    return [name.strip() for name in text.split(",")]


def numbers(text: str) -> list[float]:
    """`50,99`."""
    return [number(part) for part in text.split(",")]


def pair(text: str) -> dict[str, str]:
    """`KEY=VALUE`."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return {key.strip(): value.strip()}


def goodput(text: str) -> dict[str, float]:
    """`ttft:200,tpot:30`, in milliseconds."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, colon, most = part.partition(":")
        if not (name and colon):
            raise argparse.ArgumentTypeError(f"{part!r} is not NAME:MILLISECONDS")
        found[name.strip()] = number(most)
    return found


def fields(text: str) -> dict[str, object]:
    """A JSON object."""
    try:
        value: object = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not JSON") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is not a JSON object")
    return value
