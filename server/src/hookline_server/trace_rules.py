"""What a request says of its trace, and whether that counts: OpenTelemetry's rules.

`OTEL_PROPAGATORS` says whether trace headers are read, `OTEL_TRACES_SAMPLER` which
requests are traced. A wrong value counts like none, with a warning.
"""

import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Self

from multidict import MultiMapping

from hookline.frontend.trace_context import TraceParent

MAX_TRACESTATE_LENGTH = 512
"""Minimum length that the W3C requires to propagate; members beyond it go."""

_MOST_MEMBERS = 32
_LONG_MEMBER = 128
"""Members above this length are the first that go."""
_MEMBER = re.compile(
    r"([a-z0-9][a-z0-9_*/@-]{0,255})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{1,256}"
)

_PROPAGATORS = "OTEL_PROPAGATORS"
_READ = "tracecontext"
_SAMPLER = "OTEL_TRACES_SAMPLER"
_RATIO = "OTEL_TRACES_SAMPLER_ARG"
_BY_RATIO = "traceidratio"
_SAMPLERS = {"always_on": 1.0, "always_off": 0.0, _BY_RATIO: None}
_PARENT_BASED = "parentbased_"
_ID_BITS = 64
"""The bits of a trace id that decide about a ratio."""

logger = logging.getLogger(__name__)
Warn = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class TraceRules:
    """How traces of clients are continued.

    Attributes:
        reads_headers: Whether trace headers count.
        ratio: Part of the requests that are traced if their clients leave it open, or
            of all requests; None unless the variable is set.
        follows_caller: Whether a client decides whether its request is traced.
    """

    reads_headers: bool = True
    ratio: float | None = None
    follows_caller: bool = True

    @classmethod
    def of(cls, environment: Mapping[str, str], warn: Warn = logger.warning) -> Self:
        """Returns the rules that the variables set."""
        sampler = environment.get(_SAMPLER, "").strip().lower()
        kind = sampler.removeprefix(_PARENT_BASED)
        if kind not in _SAMPLERS:
            if sampler:
                known = ", ".join(f"[{_PARENT_BASED}]{each}" for each in _SAMPLERS)
                warn(f"{_SAMPLER} is ignored: {sampler!r} is none of {known}")
            return cls(_reads_headers(environment, warn))
        ratio = _SAMPLERS[kind]
        return cls(
            _reads_headers(environment, warn),
            _ratio(environment, warn) if ratio is None else ratio,
            sampler != kind,
        )

    def context(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Returns the trace headers that count; `tracestate` only with `traceparent`.

        They have the form of version 00, whatever the client's is, and the sampled flag
        as these rules have it.
        """
        parent = TraceParent.of(headers) if self.reads_headers else None
        if parent is None:
            return {}
        *parts, flags = headers["traceparent"].strip().split("-")[1:4]
        if not self.follows_caller:
            flags = "01" if self._samples(parent) else "00"
        context = {"traceparent": "-".join(("00", *parts, flags))}
        if state := _state(headers):
            context["tracestate"] = state
        return context

    def _samples(self, parent: TraceParent) -> bool:
        least = (1 - (1.0 if self.ratio is None else self.ratio)) * (1 << _ID_BITS)
        return int(parent.trace_id, 16) % (1 << _ID_BITS) >= least


@cache
def trace_rules() -> TraceRules:
    """Returns the rules of this process's environment, which do not change."""
    return TraceRules.of(os.environ)


def _reads_headers(environment: Mapping[str, str], warn: Warn) -> bool:
    names = {
        name
        for part in environment.get(_PROPAGATORS, "").lower().split(",")
        if (name := part.strip())
    }
    if unknown := names - {_READ, "baggage", "none"}:
        warn(
            f"{_PROPAGATORS}: {', '.join(sorted(unknown))} cannot be read, only {_READ}"
        )
    return not names or _READ in names


def _ratio(environment: Mapping[str, str], warn: Warn) -> float:
    text = environment.get(_RATIO, "").strip()
    try:
        ratio = float(text or 1)
    except ValueError:
        ratio = -1.0
    if 0 <= ratio <= 1:
        return ratio
    warn(f"{_RATIO} is ignored: {text!r} is not a number from 0 to 1")
    return 1.0


def _state(headers: Mapping[str, str]) -> str:
    """Returns the `tracestate` to pass on, empty if any member is invalid."""
    fields = [headers.get("tracestate", "")]
    if isinstance(headers, MultiMapping):
        fields = headers.getall("tracestate", [])
    members: dict[str, str] = {}
    for text in ",".join(fields).split(","):
        member = text.strip(" \t")
        if not member:
            continue  # allowed, for those who join lists
        if (found := _MEMBER.fullmatch(member)) is None:
            return ""
        members.setdefault(found[1], member)
    if len(members) > _MOST_MEMBERS:
        return ""
    return _shortened(list(members.values()))


def _shortened(members: list[str]) -> str:
    """Joins members; if they are too long, the longest and then the oldest go."""
    text = ",".join(members)
    if len(text) > MAX_TRACESTATE_LENGTH:
        text = ",".join(each for each in members if len(each) <= _LONG_MEMBER)
    while len(text) > MAX_TRACESTATE_LENGTH:
        text = text.rpartition(",")[0]
    return text
