"""The load of an instance, read from its page of metrics."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

_SAMPLE = re.compile(r"(?P<name>[a-z:_]+)(?:\{[^\n]*\})? (?P<value>\S+)")
_LENGTH = re.compile(
    r'^hookline_engine_info\{[^\n]*\bmax_model_len="([1-9][0-9]{0,8})"', re.MULTILINE
)

DIALECTS = (
    ("hookline_requests_running", "hookline_requests_waiting"),
    ("vllm:num_requests_running", "vllm:num_requests_waiting"),
    ("sglang:num_running_reqs", "sglang:num_queue_reqs"),
    ("llamacpp:requests_processing", "llamacpp:requests_deferred"),
)
"""Names of the running and waiting requests; the first pair on the page counts."""

USAGES = (
    "hookline_kv_cache_usage_ratio",
    "vllm:kv_cache_usage_perc",
    "sglang:token_usage",
    "llamacpp:kv_cache_usage_ratio",
)
SATURATION = "hookline_saturation_ratio"


@dataclass(frozen=True, slots=True)
class Load:
    """Load of an instance at the time of a poll.

    Attributes:
        requests: Number of running and waiting requests, of all its engines.
        kv_usage: Fraction of the KV cache in use, of the fullest engine.
        max_model_len: Maximum number of tokens of a sequence; None if the page does not
            say.
        saturation: Saturation of the mean engine; None if the page does not say.
        waiting: Number of those of `requests` that wait.
        has_kv_usage: Whether the page says `kv_usage`.
    """

    requests: float
    kv_usage: float
    max_model_len: int | None = None
    saturation: float | None = None
    waiting: float = 0.0
    has_kv_usage: bool = True

    @property
    def running(self) -> float:
        """Number of running requests."""
        return self.requests - self.waiting


def read_load(page: str) -> Load | None:
    """Reads the load from a page in Prometheus' format; None if it has none."""
    found = _samples(page)
    for names in DIALECTS:
        if all(name in found for name in names):
            usages = [max(found[name]) for name in USAGES if name in found]
            running, waiting = (sum(found[name]) for name in names)
            of_engines = found.get(SATURATION)
            return Load(
                running + waiting,
                max(usages, default=0),
                _max_model_len(page),
                fmean(of_engines) if of_engines else None,
                waiting,
                bool(usages),
            )
    return None


def _max_model_len(page: str) -> int | None:
    lengths = [int(each) for each in _LENGTH.findall(page)]
    return min(lengths, default=None)


def _samples(page: str) -> Mapping[str, list[float]]:
    """Returns the values of all series with these names."""
    read = {SATURATION, *USAGES, *(name for names in DIALECTS for name in names)}
    found: dict[str, list[float]] = {}
    for line in page.splitlines():
        match = _SAMPLE.match(line)
        if match is not None and match["name"] in read:
            value = _number(match["value"])
            if value >= 0:
                found.setdefault(match["name"], []).append(value)
    return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0
