"""Readers of option values that Python has no function for."""

import argparse
import dataclasses
import math
import re

from hookline.config.kv_events import KVEventsConfig
from hookline.kv_transfer import KVTransferConfig
from hookline.spec_decode import SpeculativeConfig

UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


def size(text: str) -> int:
    """Bytes: `1048576`, `512MiB`, `1.5GB`."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or match[2].upper() not in UNITS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a size; write bytes, or a number with KiB, MiB or GiB"
        )
    return int(float(match[1]) * UNITS[match[2].upper()])


def whole(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError as error:
        message = f"{text!r} is not a whole number"
        raise argparse.ArgumentTypeError(message) from error


def number(text: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from error
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return value


def kv_transfer(text: str) -> dict[str, object]:
    """A JSON object; raises `ConfigError` where it says nothing that can be done."""
    return dataclasses.asdict(KVTransferConfig.from_json(text))


def kv_events(text: str) -> dict[str, object]:
    """A JSON object; raises `ConfigError` where it says nothing that can be done."""
    return dataclasses.asdict(KVEventsConfig.from_json(text))


def speculation(text: str) -> dict[str, object]:
    """A JSON object; raises `ConfigError` where it says nothing that can be done."""
    return dataclasses.asdict(SpeculativeConfig.from_json(text))
