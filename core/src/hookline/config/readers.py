"""Readers of option values that are written as text."""

import json
import re

from hookline.exceptions import ConfigError
from hookline.request import Slo

OBJECTIVES = ("ttft", "tpot", "e2e")
"""Names of service-level objectives: the fields of `Slo`."""
MULTIPLES = {
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "K": 2**10,
    "M": 2**20,
    "G": 2**30,
    "T": 2**40,
}
"""Factors of numbers such as `8k` (8000) and `8K` (8192), as vLLM reads them."""
_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", 1):
    _UNITS |= {f"{_letter}B": 1000**_power, f"{_letter}IB": 1024**_power}

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


def read_size(text: str) -> int:
    """Reads a number of bytes, such as `1048576`, `512MiB`, `1.5GB` or `8G` (8GiB).

    Raises:
        ValueError: It is not a size.
    """
    match = _SIZE.fullmatch(text.strip())
    unit = match[2] if match else ""
    factor = MULTIPLES.get(unit) or _UNITS.get(unit.upper())
    if match is None or factor is None:
        raise ValueError(
            f"{text!r} is not a size; write bytes, or a number with KiB, MiB or GiB"
        )
    return int(float(match[1]) * factor)


def read_label(text: str) -> dict[str, str]:
    """Reads `KEY=VALUE`; neither may be empty.

    Raises:
        ValueError: It has another form.
    """
    key, equals, value = text.partition("=")
    if not (equals and key and value):
        raise ValueError(f"{text!r} is not KEY=VALUE")
    return {key: value}


def read_plugin_option(text: str) -> dict[str, dict[str, str]]:
    """Reads `NAME.KEY=VALUE`, the option KEY of the plugin NAME.

    Raises:
        ValueError: It has another form.
    """
    path, equals, value = text.partition("=")
    name, dot, key = path.rpartition(".")
    if not (equals and dot and name and key):
        raise ValueError(f"{text!r} is not NAME.KEY=VALUE")
    return {name: {key: value}}


def parse_object(text: str) -> dict[str, object]:
    """Parses a JSON object.

    Raises:
        ValueError: It is something else.
    """
    try:
        given: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{text!r} is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise ValueError(f"{text!r} is not a JSON object")  # noqa: TRY004
    return given


def read_object(option: str, text: str) -> dict[str, object]:
    """Parses the JSON object of a command's option.

    Raises:
        ConfigError: It is something else.
    """
    try:
        return parse_object(text)
    except ValueError as error:
        raise ConfigError(option, str(error)) from error


def read_slo(text: str) -> Slo:
    """Reads objectives, as in `ttft=0.5,tpot=0.05,e2e=10`.

    Raises:
        ValueError: An objective is unknown, repeated, or not a positive number.
    """
    limits: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or name not in OBJECTIVES:
            known = ", ".join(OBJECTIVES)
            raise ValueError(f"{part.strip()!r} is not NAME=SECONDS; names: {known}")
        if name in limits:
            raise ValueError(f"{name} is given twice")
        limits[name] = _seconds(name, value)
    return Slo(**limits)


def _seconds(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise ValueError(f"{name}={text} is not a number of seconds") from error
    if not 0 < value < float("inf"):
        raise ValueError(f"{name} must be a positive number of seconds, not {text}")
    return value
