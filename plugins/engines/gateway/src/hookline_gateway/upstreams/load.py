"""The load of an instance, read from its page of metrics."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean

from hookline.frozen import EMPTY

_SAMPLE = re.compile(r"(?P<name>[a-z:_]+)(?:\{(?P<labels>[^\n]*)\})? (?P<value>\S+)")
_LENGTH = re.compile(
    r'^hookline_engine_info\{[^\n]*\bmax_model_len="([1-9][0-9]{0,8})"', re.MULTILINE
)
_REASON = re.compile(r'\breason="(\w+)"')
_SHARE = re.compile(r'\bpriority="[^"]')
_RANKS = re.compile(r'\b(?:tp|pp|moe_ep)_rank="[^"]*",?')

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
CONTEXT = "sglang:context_len"

GRAMMAR, REMOTE_KV = "grammar", "remote_kv"
QUEUES = {
    "sglang:num_grammar_queue_reqs": GRAMMAR,
    "sglang:num_prefill_bootstrap_queue_reqs": REMOTE_KV,
    "sglang:num_decode_prealloc_queue_reqs": REMOTE_KV,
    "sglang:num_decode_transfer_queue_reqs": REMOTE_KV,
}
"""Queues beside that of the waiting requests, by what their requests wait for."""

Series = list[tuple[str, float]]
"""Labels, as on the page, and values of a family."""


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
        held: Number of those of `waiting` that wait for something else than capacity,
            by what: a grammar, or KV of another instance.
    """

    requests: float
    kv_usage: float
    max_model_len: int | None = None
    saturation: float | None = None
    waiting: float = 0.0
    has_kv_usage: bool = True
    held: Mapping[str, float] = field(default_factory=lambda: EMPTY)

    @property
    def running(self) -> float:
        """Number of running requests."""
        return self.requests - self.waiting


def read_load(page: str) -> Load | None:
    """Reads the load from a page in Prometheus' format; None if it has none."""
    found = _samples(page)
    for names in DIALECTS:
        if all(name in found for name in names):
            usages = [_most(found[name]) for name in USAGES if name in found]
            running, waiting = (_sum(found[name]) for name in names)
            held = _held(found)
            if names[0].startswith("sglang:"):  # beside those that wait
                waiting += sum(held.values())
            of_engines = [value for _, value in found.get(SATURATION, ())]
            return Load(
                running + waiting,
                max(usages, default=0),
                _max_model_len(page, found),
                fmean(of_engines) if of_engines else None,
                waiting,
                bool(usages),
                held,
            )
    return None


def _held(found: Mapping[str, Series]) -> Mapping[str, float]:
    """Returns the requests that wait for something else than capacity, if there are."""
    held = {GRAMMAR: 0.0, REMOTE_KV: 0.0}
    for labels, value in found.get("hookline_requests_waiting", ()):
        reason = _REASON.search(labels)
        if reason is not None and reason[1] in held:
            held[reason[1]] += value
    for name, reason_of_queue in QUEUES.items():
        held[reason_of_queue] += _sum(found.get(name, ()))
    return {reason: count for reason, count in held.items() if count}


def _sum(series: Iterable[tuple[str, float]]) -> float:
    """Returns the number of requests of all engines.

    SGLang tells them also by priority, and again for each rank of an engine.
    """
    engines: dict[str, float] = {}
    for number, (labels, value) in enumerate(series):
        if _SHARE.search(labels):
            continue
        same = _RANKS.sub("", labels)
        engine = same if same != labels else f"{number} {labels}"
        engines[engine] = max(value, engines.get(engine, 0.0))
    return sum(engines.values())


def _most(series: Series) -> float:
    return max(value for _, value in series)


def _max_model_len(page: str, found: Mapping[str, Series]) -> int | None:
    lengths = [int(each) for each in _LENGTH.findall(page)]
    lengths += [int(value) for _, value in found.get(CONTEXT, ()) if 0 < value < 1e9]
    return min(lengths, default=None)


def _samples(page: str) -> Mapping[str, Series]:
    """Returns all series with these names."""
    read = {SATURATION, CONTEXT, *USAGES, *QUEUES}
    read.update(name for names in DIALECTS for name in names)
    found: dict[str, Series] = {}
    for line in page.splitlines():
        match = _SAMPLE.match(line)
        if match is not None and match["name"] in read:
            value = _number(match["value"])
            if value >= 0:
                series = found.setdefault(match["name"], [])
                series.append((match["labels"] or "", value))
    return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0
