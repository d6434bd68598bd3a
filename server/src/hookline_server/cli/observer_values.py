"""Readers of the values that say what is observed, and under which names."""

import argparse
import json

from hookline.config import DetailedTrace
from hookline.slo import Slo
from hookline_server.tenants import is_tenant

DEFAULT_SAMPLE = 0.01
"""Share of the KV blocks whose residency `--kv-cache-metrics` measures."""

RESERVED_TENANTS = ("other", "none")
"""What the label `tenant` says of those that have no value of their own."""


def words(text: str) -> list[str]:
    """Words between commas."""
    found = [word.strip() for word in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty part")
    return found


def detailed_traces(text: str) -> list[str]:
    """Parts of which there are detailed traces."""
    found = words(text)
    for word in found:
        if word not in tuple(DetailedTrace):
            known = ", ".join(DetailedTrace)
            raise argparse.ArgumentTypeError(f"{word!r} is none of {known}")
    return found


def objectives(text: str) -> dict[str, float]:
    """Service-level objectives: `ttft=0.5,tpot=0.05`."""
    try:
        slo = Slo.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    limits = {"ttft": slo.ttft, "tpot": slo.tpot, "e2e": slo.e2e}
    return {name: limit for name, limit in limits.items() if limit is not None}


def label(text: str) -> dict[str, str]:
    """A constant label: `KEY=VALUE`."""
    key, equals, value = text.partition("=")
    if not (equals and key and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return {key: value}


def buckets(text: str) -> dict[str, list[float]]:
    """Bounds by name: `{"time_to_first_token": [0.1, 1]}`."""
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError('must be an object {"NAME": [NUMBERS]}')
    return {name: _bounds(name, bounds) for name, bounds in found.items()}


def tenant(text: str) -> str:
    """A tenant that a label may name."""
    if not is_tenant(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no tenant: 1 to 64 letters, digits and ._:- are"
        )
    if text in RESERVED_TENANTS:
        raise argparse.ArgumentTypeError(f"{text!r} already stands for other tenants")
    return text


def _bounds(name: str, bounds: object) -> list[float]:
    if not isinstance(bounds, list):
        raise argparse.ArgumentTypeError(f"{name} must have a list of numbers")
    for bound in bounds:
        if isinstance(bound, bool) or not isinstance(bound, (int, float)):
            raise argparse.ArgumentTypeError(f"{name}: {bound!r} is not a number")
    return bounds
