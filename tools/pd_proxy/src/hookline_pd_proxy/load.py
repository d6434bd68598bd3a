"""How busy an instance says it is, read from its page of metrics."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_SAMPLE = re.compile(r"(?P<name>[a-z:_]+)(?:\{[^\n]*\})? (?P<value>\S+)")

DIALECTS = (
    ("hookline_requests_running", "hookline_requests_waiting"),
    ("vllm:num_requests_running", "vllm:num_requests_waiting"),
)
"""Names of what runs and of what waits; the first pair that a page has counts."""

USAGES = ("hookline_kv_cache_usage_ratio", "vllm:kv_cache_usage_perc")


@dataclass(frozen=True, slots=True)
class Load:
    """What an instance had to do when it was asked.

    Attributes:
        requests: That ran or waited, of all its engines.
        kv_usage: Share of its KV cache that was in use, of the fullest engine.
    """

    requests: float
    kv_usage: float


def read_load(page: str) -> Load | None:
    """Of a page in Prometheus' format; None where it does not tell."""
    found = _samples(page)
    for names in DIALECTS:
        if all(name in found for name in names):
            usages = [max(found[name]) for name in USAGES if name in found]
            return Load(sum(sum(found[name]) for name in names), max(usages, default=0))
    return None


def _samples(page: str) -> Mapping[str, list[float]]:
    """The values of the names that count here, of all series."""
    wanted = {*USAGES, *(name for names in DIALECTS for name in names)}
    found: dict[str, list[float]] = {}
    for line in page.splitlines():
        match = _SAMPLE.match(line)
        if match is not None and match["name"] in wanted:
            value = _number(match["value"])
            if value >= 0:
                found.setdefault(match["name"], []).append(value)
    return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0
