"""What a request says of its trace, and whether that counts, by OpenTelemetry's API.

`OTEL_PROPAGATORS` says which headers are read and written, `OTEL_TRACES_SAMPLER` which
requests are traced. A wrong value counts like none, with a warning. Inside the server a
context has W3C's form, whatever the headers' is.
"""

import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any, NamedTuple, Protocol, Self

from multidict import MultiMapping
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import Getter, TextMapPropagator
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    TraceFlags,
    TraceState,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from hookline_registry import Failure, isolate

MAX_TRACESTATE_LENGTH = 512
"""Minimum length that the W3C requires to propagate; members beyond it go."""

PROPAGATORS = "OTEL_PROPAGATORS"

_MOST_MEMBERS = 32
_LONG_MEMBER = 128
"""Members above this length are the first that go."""
_MEMBER = re.compile(
    r"([a-z0-9][a-z0-9_*/@-]{0,255})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{1,256}"
)
_STATE = "tracestate"
_LONGEST_HEADER = 512
_USUAL = ("tracecontext", "baggage")
_SAMPLER = "OTEL_TRACES_SAMPLER"
_ARGUMENT = "OTEL_TRACES_SAMPLER_ARG"
_BY_RATIO = "traceidratio"
_RATIOS = {"always_on": 1.0, "always_off": 0.0, _BY_RATIO: None}
_PARENT_BASED = "parentbased_"
_SPAN_NAME = "request"
"""What samplers are asked about; the span's own name is known only later."""

IS_PLAIN = not (os.environ.get(PROPAGATORS) or os.environ.get(_SAMPLER))
"""Whether only W3C's headers count, and clients decide; variables do not change."""

logger = logging.getLogger(__name__)
Warn = Callable[[str], object]
_w3c = TraceContextTextMapPropagator()


class Decision(Protocol):
    """What a sampler decides."""

    def is_sampled(self) -> bool: ...


class SamplingResult(Protocol):
    """The answer of one of the SDK's samplers."""

    @property
    def decision(self) -> Decision: ...

    @property
    def trace_state(self) -> TraceState | None: ...


class Sampler(Protocol):
    """One of the SDK's samplers; the server itself does not need the SDK."""

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind,
        /,
    ) -> SamplingResult: ...


class RequestTrace(NamedTuple):
    """What counts of a request's trace.

    Attributes:
        context: The context of its parent, in the form of W3C's headers.
        trace_id: Id of the trace that begins with it; empty if that is open, or if it
            has a parent.
    """

    context: dict[str, str]
    trace_id: str = ""


NO_TRACE = RequestTrace({})


class Headers(Getter[Mapping[str, str]]):
    """Reads a request's headers for propagators; only well-formed ones are shown."""

    def get(self, carrier: Mapping[str, str], key: str) -> list[str] | None:
        """Returns the values of a header; a `tracestate` is checked and shortened."""
        if key == "baggage":  # which nothing here reads
            return None
        if key == _STATE:
            state = _state(carrier)
            return [state] if state else None
        found = carrier.get(key)
        if found is None or len(found) > _LONGEST_HEADER:
            return None
        return [found]

    def keys(self, carrier: Mapping[str, str]) -> list[str]:
        return list(carrier)


_headers = Headers()


@dataclass(frozen=True, slots=True)
class TraceRules:
    """How traces of clients are continued.

    Attributes:
        propagator: Reads and writes trace headers.
        sampler: Decides which traces are recorded; None leaves it to the clients.
        ratio: Part of the requests that is traced if their clients leave it open; None
            unless the variable of the sampler says it.
    """

    propagator: TextMapPropagator
    sampler: Sampler | None = None
    ratio: float | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str], warn: Warn = logger.warning) -> Self:
        """Returns the rules that the variables set."""
        sampler, ratio = _sampler(environment, warn)
        parts: list[TextMapPropagator] = []
        for name in propagator_names(environment, warn):
            made = isolate(_made, "opentelemetry_propagator", name)
            if isinstance(made, Failure):
                warn(f"{PROPAGATORS}: {name} cannot be used: {made.summary}")
            else:
                parts.append(made)
        return cls(CompositePropagator(parts), sampler, ratio)

    def trace_of(self, headers: Mapping[str, str]) -> RequestTrace:
        """Returns what counts of a request's trace.

        Its parent is the current span if the host program has one, such as one of an
        instrumentation of its HTTP server; else that of the headers. The sampled flag
        is as these rules have it.
        """
        parent = trace.get_current_span().get_span_context()
        if not parent.is_valid:
            parent = self._sent(headers)
        if self.sampler is None:
            return RequestTrace(_as_headers(parent))
        if parent.is_valid:
            flags = parent.trace_flags & ~TraceFlags.SAMPLED
            return RequestTrace(_as_headers(_decided(self.sampler, parent, flags)))
        if self.ratio is not None:  # the engine's configuration has it
            return RequestTrace({})
        new = SpanContext(
            int.from_bytes(os.urandom(16)), int.from_bytes(os.urandom(8)), True
        )
        decided = _decided(self.sampler, new, TraceFlags.DEFAULT, is_root=True)
        if decided.trace_flags.sampled:
            return RequestTrace({}, trace.format_trace_id(new.trace_id))
        return RequestTrace(_as_headers(decided))  # only says that it is not traced

    def headers(
        self, trace_id: str, span_id: str, context: Mapping[str, str]
    ) -> dict[str, str]:
        """Returns the headers that make a span the parent of another server's.

        Args:
            trace_id: Id of the span's trace.
            span_id: Id of the span, which is recorded.
            context: The context of its own parent, whose state goes on.
        """
        state = trace.get_current_span(_w3c.extract(context)).get_span_context()
        span = SpanContext(
            int(trace_id, 16),
            int(span_id, 16),
            is_remote=False,
            trace_flags=TraceFlags(TraceFlags.SAMPLED),
            trace_state=state.trace_state,
        )
        carrier: dict[str, str] = {}
        self.propagator.inject(carrier, _as_context(span))
        return carrier

    def _sent(self, headers: Mapping[str, str]) -> SpanContext:
        found = isolate(lambda: self.propagator.extract(headers, Context(), _headers))
        if isinstance(found, Failure):  # propagators of others may trip over headers
            return trace.INVALID_SPAN_CONTEXT
        return trace.get_current_span(found).get_span_context()


def trace_rules() -> TraceRules:
    """Returns the rules of this process's environment, which do not change.

    They are those of `opentelemetry.propagate`, too: a program that has set a
    propagator there keeps it, and other users of the API get the server's.
    """
    rules, warnings = _rules()
    while (
        warnings
    ):  # once they are known, as lines of a request's log ask for its trace
        logger.warning(warnings.pop(0))
    return rules


@cache
def _rules() -> tuple[TraceRules, list[str]]:
    """Returns the rules, and warnings that have yet to be given."""
    warnings: list[str] = []
    rules = TraceRules.of(os.environ, warnings.append)
    if "opentelemetry.propagate" in sys.modules:
        propagator = sys.modules["opentelemetry.propagate"].get_global_textmap()
        return TraceRules(propagator, rules.sampler, rules.ratio), warnings
    if os.environ.get(PROPAGATORS):  # with a name that is not known, it is no module
        names = propagator_names(os.environ, warn=bool)
        os.environ[PROPAGATORS] = ",".join(names) or "none"
    from opentelemetry import propagate  # noqa: PLC0415 - reads the variable

    propagate.set_global_textmap(rules.propagator)
    return rules, warnings


def propagator_names(environment: Mapping[str, str], warn: Warn) -> list[str]:
    """Returns the propagators that a variable names and that are installed."""
    text = environment.get(PROPAGATORS, "").lower()
    names = dict.fromkeys(name for part in text.split(",") if (name := part.strip()))
    if "none" in names:
        return []
    known: list[str] = []
    for name in names or _USUAL:
        if entry_points(group="opentelemetry_propagator", name=name):
            known.append(name)
        else:
            package = f"opentelemetry-propagator-{name.removesuffix('multi')}"
            warn(f"{PROPAGATORS}: {name} is not installed; {package} may have it")
    return known or list(_USUAL)


def _sampler(
    environment: Mapping[str, str], warn: Warn
) -> tuple[Sampler | None, float | None]:
    """Returns the sampler that a variable names, and the ratio that it stands for."""
    name = environment.get(_SAMPLER, "").strip().lower()
    if not name:
        return None, None
    kind = name.removeprefix(_PARENT_BASED)
    argument: object = environment.get(_ARGUMENT, "").strip() or None
    ratio = _RATIOS.get(kind)
    if kind == _BY_RATIO:
        argument = ratio = _ratio(environment, warn)
    if name != kind and ratio is not None:
        return None, ratio  # as without a sampler: a parent decides
    if not entry_points(group="opentelemetry_traces_sampler", name=name):
        known = ", ".join(f"[{_PARENT_BASED}]{each}" for each in _RATIOS)
        warn(f"{_SAMPLER} is ignored: {name!r} is not installed, and none of {known}")
        return None, None
    made = isolate(_made, "opentelemetry_traces_sampler", name, argument)
    if isinstance(made, Failure):
        warn(f"{_SAMPLER} is ignored: {name} cannot be used: {made.summary}")
        return None, None
    return made, ratio


def _made(group: str, name: str, *arguments: object) -> Any:
    """Makes what an installed distribution of OpenTelemetry offers by a name."""
    [found, *_] = entry_points(group=group, name=name)
    return found.load()(*arguments)


def _decided(
    sampler: Sampler, span: SpanContext, flags: int, *, is_root: bool = False
) -> SpanContext:
    """Returns a parent with the sampled flag as a sampler decides.

    Args:
        sampler: Decides.
        span: The parent, or a new span if there is none.
        flags: Its flags but for that one.
        is_root: Whether there is no parent.
    """
    context = Context() if is_root else _as_context(span)
    result = isolate(
        sampler.should_sample, context, span.trace_id, _SPAN_NAME, SpanKind.SERVER
    )
    if isinstance(result, Failure):  # others' samplers may trip, too
        return span
    return SpanContext(
        span.trace_id,
        span.span_id,
        is_remote=True,
        trace_flags=TraceFlags(flags | result.decision.is_sampled()),
        trace_state=result.trace_state,
    )


def _as_context(span: SpanContext) -> Context:
    return trace.set_span_in_context(NonRecordingSpan(span), Context())


def _as_headers(span: SpanContext) -> dict[str, str]:
    carrier: dict[str, str] = {}
    if span.is_valid:
        _w3c.inject(carrier, _as_context(span))
    return carrier


def _ratio(environment: Mapping[str, str], warn: Warn) -> float:
    text = environment.get(_ARGUMENT, "").strip()
    try:
        ratio = float(text or 1)
    except ValueError:
        ratio = -1.0
    if 0 <= ratio <= 1:
        return ratio
    warn(f"{_ARGUMENT} is ignored: {text!r} is not a number from 0 to 1")
    return 1.0


def _state(headers: Mapping[str, str]) -> str:
    """Returns the `tracestate` to pass on, empty if any member is invalid."""
    fields = [headers.get(_STATE, "")]
    if isinstance(headers, MultiMapping):
        fields = headers.getall(_STATE, [])
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
