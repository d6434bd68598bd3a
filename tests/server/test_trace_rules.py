"""Which traces of clients are continued, by OpenTelemetry's variables."""

import os
import subprocess
import sys
from typing import Any

import pytest
from multidict import CIMultiDict
from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import Decision, SamplingResult, StaticSampler
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    TraceState,
    use_span,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from hookline_processes.trace_parent import TraceParent
from hookline_server.cli.options.implied import completed
from hookline_server.trace_rules import RequestTrace, TraceRules

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector"}


def rules(sampler: str = "", argument: str = "", propagators: str = "") -> TraceRules:
    """The rules of an environment, none of which is worth a warning."""
    warnings: list[str] = []
    found = TraceRules.of(variables(sampler, argument, propagators), warnings.append)
    assert warnings == []
    return found


def variables(
    sampler: str = "", argument: str = "", propagators: str = ""
) -> dict[str, str]:
    return {
        "OTEL_TRACES_SAMPLER": sampler,
        "OTEL_TRACES_SAMPLER_ARG": argument,
        "OTEL_PROPAGATORS": propagators,
    }


@pytest.mark.parametrize(
    ("header", "is_valid"),
    [
        (PARENT, True),
        (f"{PARENT}-extra", False),
        (f"01{PARENT[2:]}", True),
        (f"01{PARENT[2:]}-extra", True),
        (f"cc{PARENT[2:]}-a-b", True),
        (f"01{PARENT[2:]}extra", False),
        (f"ff{PARENT[2:]}", False),
        (f"ff{PARENT[2:]}-extra", False),
    ],
)
def test_of_later_versions_the_known_part_counts(header: str, is_valid: bool) -> None:
    """It is passed on in the form of version 00, the only one known here."""
    found = TraceParent.of({"traceparent": header})

    assert found == (TraceParent(TRACE, SPAN, is_sampled=True) if is_valid else None)
    context = rules().trace_of({"traceparent": header}).context
    assert context == ({"traceparent": PARENT} if is_valid else {})


@pytest.mark.parametrize(
    ("state", "passed"),
    [
        ("", ""),
        ("a=1,b@c=x y , d=2", "a=1,b@c=x y,d=2"),
        ("a=1,,", "a=1"),
        ("a=1,b=2,a=3", "a=1,b=2"),
        ("A=1", ""),
        ("a=é", ""),
        ("a", ""),
        (",".join(f"k{each}=v" for each in range(32)), None),
        (",".join(f"k{each}=v" for each in range(33)), ""),
        ("a=1,b=" + "x" * 250 + ",c=" + "y" * 250 + ",d=4", "a=1,d=4"),
        (",".join(f"{each}=" + "x" * 98 for each in "abcdef"), "abcde"),
    ],
)
def test_trace_state_is_limited_by_whole_members(
    state: str, passed: str | None
) -> None:
    """The W3C's limits: 32 members, 512 characters, long members go first."""
    found = rules().trace_of({"traceparent": PARENT, "tracestate": state}).context

    if passed == "abcde":
        passed = ",".join(f"{each}=" + "x" * 98 for each in passed)
    expected = state if passed is None else passed
    assert found.get("tracestate", "") == expected


def test_trace_state_may_come_in_several_headers() -> None:
    """In their order they are one list."""
    headers = CIMultiDict(
        (("traceparent", PARENT), ("tracestate", "a=1"), ("TraceState", "b=2"))
    )

    assert rules().trace_of(headers).context["tracestate"] == "a=1,b=2"


@pytest.mark.parametrize(
    ("propagators", "is_read"),
    [
        ("", True),
        ("tracecontext,baggage", True),
        ("TraceContext", True),
        ("none", False),
        ("baggage", False),
    ],
)
def test_propagators_say_whether_headers_are_read(
    propagators: str, is_read: bool
) -> None:
    """Without `tracecontext` among them, the W3C's are not."""
    found = rules(propagators=propagators).trace_of({"traceparent": PARENT})

    assert bool(found.context) is is_read


@pytest.mark.parametrize(
    ("propagators", "headers", "expected"),
    [
        ("b3", {"b3": f"{TRACE}-{SPAN}-1"}, PARENT),
        (
            "b3",
            {"b3": f"{TRACE[16:]}-{SPAN}-0"},
            f"00-{'0' * 16}{TRACE[16:]}-{SPAN}-00",
        ),
        ("b3", {"b3": f"{TRACE}-{SPAN}-d"}, PARENT),
        ("b3", {"b3": "0"}, None),
        ("b3", {"b3": "junk-b7-1-2-3"}, None),
        ("b3", {"b3": f"{'0' * 32}-{SPAN}-1"}, None),
        ("b3", {"traceparent": PARENT}, None),
        (
            "b3multi",
            {"x-b3-traceid": TRACE, "x-b3-spanid": SPAN, "x-b3-sampled": "1"},
            PARENT,
        ),
        ("b3multi", {"x-b3-traceid": TRACE}, None),
        ("tracecontext,b3,b3", {"traceparent": PARENT}, PARENT),
        ("tracecontext,b3", {"b3": f"{TRACE}-{SPAN}-1"}, PARENT),
    ],
)
def test_other_propagators_read_their_headers(
    propagators: str, headers: dict[str, str], expected: str | None
) -> None:
    """Inside the server a context has the W3C's form, whatever the headers' is."""
    found = rules(propagators=propagators).trace_of(CIMultiDict(headers)).context

    assert found.get("traceparent") == expected


@pytest.mark.parametrize(
    ("propagators", "expected"),
    [
        ("", {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "a=1"}),
        ("b3", {"b3": f"{TRACE}-{SPAN}-1"}),
        ("none", {}),
    ],
)
def test_propagators_say_which_headers_are_written(
    propagators: str, expected: dict[str, str]
) -> None:
    """For the servers whose spans are children of one here; the state goes on."""
    context = {"traceparent": f"00-{TRACE}-{'1' * 16}-01", "tracestate": "a=1"}

    assert rules(propagators=propagators).headers(TRACE, SPAN, context) == expected


def test_a_current_span_is_the_parent() -> None:
    """As an instrumentation of the host program's HTTP server makes one."""
    span = NonRecordingSpan(
        SpanContext(7, 8, is_remote=False, trace_flags=TraceFlags(1))
    )

    with use_span(span):
        found = rules().trace_of({"traceparent": PARENT}).context

    assert found == {"traceparent": f"00-{7:032x}-{8:016x}-01"}


def test_a_propagator_that_raises_reads_nothing() -> None:
    """Others' propagators may trip over what a client sends."""

    class Mad(TraceContextTextMapPropagator):
        def extract(self, *_: Any, **__: Any) -> Context:
            raise ValueError("mad")

    assert TraceRules(Mad()).trace_of({"traceparent": PARENT}) == RequestTrace({})


def test_a_sampler_that_raises_leaves_the_decision_to_the_client() -> None:
    """And traces no request whose client leaves it open."""

    class Mad(StaticSampler):
        def should_sample(self, *_: Any, **__: Any) -> SamplingResult:
            raise ValueError("mad")

    found = TraceRules(rules().propagator, Mad(Decision.DROP))

    assert found.trace_of({"traceparent": PARENT}).context == {"traceparent": PARENT}
    context, trace_id = found.trace_of({})
    assert context["traceparent"].endswith("-00")
    assert not trace_id


class Half(StaticSampler):
    """A sampler of another distribution: it takes odd traces, and leaves its mark."""

    def __init__(self, _: object = None) -> None:
        super().__init__(Decision.DROP)

    def should_sample(
        self, _: Context | None, trace_id: int, *__: object
    ) -> SamplingResult:
        takes = Decision.RECORD_AND_SAMPLE if trace_id % 2 else Decision.DROP
        return SamplingResult(takes, trace_state=TraceState([("half", "1")]))


def test_any_sampler_of_the_sdk_decides() -> None:
    """About requests with a parent, and about those that begin a trace."""
    found = TraceRules(rules().propagator, Half())
    odd, even = (f"00-{each:032x}-{SPAN}-00" for each in (7, 8))

    assert found.trace_of({"traceparent": odd}).context == {
        "traceparent": f"{odd[:-2]}01",
        "tracestate": "half=1",
    }
    assert found.trace_of({"traceparent": even}).context["traceparent"] == even
    for _ in range(8):
        context, trace_id = found.trace_of({})
        if trace_id:  # it begins here
            assert int(trace_id, 16) % 2
            assert not context
        else:  # and here the engine learns that it is not traced
            assert context["traceparent"].endswith("-00")


@pytest.mark.parametrize(
    ("sampler", "argument", "ratio", "of_sampled", "of_unsampled"),
    [
        ("", "", None, True, False),
        ("always_on", "", 1.0, True, True),
        ("always_off", "", 0.0, False, False),
        ("Always_On", "", 1.0, True, True),
        ("traceidratio", "1", 1.0, True, True),
        ("traceidratio", "0", 0.0, False, False),
        ("traceidratio", "", 1.0, True, True),
        ("parentbased_always_on", "", 1.0, True, False),
        ("parentbased_always_off", "", 0.0, True, False),
        ("parentbased_traceidratio", "0.25", 0.25, True, False),
    ],
)
def test_samplers_decide_as_the_standard_says(
    sampler: str,
    argument: str,
    ratio: float | None,
    of_sampled: bool,
    of_unsampled: bool,
) -> None:
    """Those that are not based on the parent decide whatever the client does."""
    found = rules(sampler, argument)

    assert found.ratio == ratio
    for flags, expected in (("01", of_sampled), ("00", of_unsampled)):
        sent = {"traceparent": f"{PARENT[:-2]}{flags}"}
        parent = TraceParent.of(found.trace_of(sent).context)
        assert parent is not None
        assert parent.is_sampled is expected


def test_a_ratio_takes_the_same_traces_everywhere() -> None:
    """The trace id decides, so that other services that use it agree."""
    found = rules("traceidratio", "0.25")
    sampled = [
        found.trace_of({"traceparent": f"00-{part:032x}-{SPAN}-00"}).context[
            "traceparent"
        ]
        for part in range(1, 1 << 64, (1 << 64) // 100)
    ]

    assert sum(each.endswith("01") for each in sampled) == pytest.approx(25, abs=1)


START = """
import logging, sys
from hookline_server.trace_rules import trace_rules

logging.basicConfig()
logging.getLogger().handlers[0].addFilter(lambda record: bool(trace_rules()))
headers = {"traceparent": sys.argv[1], "b3": sys.argv[2]}
print(trace_rules().trace_of(headers).context)
from opentelemetry import propagate
print(sorted(propagate.get_global_textmap().fields))
print("opentelemetry.sdk" in sys.modules)
"""


@pytest.mark.parametrize(
    ("propagators", "expected"),
    [
        (None, [{"traceparent": PARENT}, ["baggage", "traceparent", "tracestate"]]),
        ("b3,xray", [{"traceparent": f"00-{7:032x}-{SPAN}-01"}, ["b3"]]),
    ],
)
def test_the_server_needs_only_the_api(
    propagators: str | None, expected: list[object]
) -> None:
    """
    It passes contexts on without the SDK, as other users of the API would, and warns
    once, also where lines of its log ask for their trace.
    """
    environment = {**os.environ, "OTEL_PROPAGATORS": propagators or ""}

    done = subprocess.run(
        [sys.executable, "-c", START, PARENT, f"{7:032x}-{SPAN}-1"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines() == [*map(str, expected), "False"]
    assert done.stderr.count("xray is not installed") == (propagators is not None)


@pytest.mark.parametrize(
    ("environment", "warning"),
    [
        (variables("jaeger_remote"), "OTEL_TRACES_SAMPLER is ignored: 'jaeger_remote'"),
        (variables("traceidratio", "2"), "OTEL_TRACES_SAMPLER_ARG is ignored: '2'"),
        (variables("traceidratio", "x"), "OTEL_TRACES_SAMPLER_ARG is ignored: 'x'"),
        (
            variables("", "", "xray,tracecontext"),
            "OTEL_PROPAGATORS: xray is not installed",
        ),
        (variables("", "", "xray"), "OTEL_PROPAGATORS: xray is not installed"),
    ],
)
def test_a_wrong_variable_is_a_warning(
    environment: dict[str, str], warning: str
) -> None:
    """The default takes its place."""
    warnings: list[str] = []

    found = TraceRules.of(environment, warnings.append)

    assert [each[: len(warning)] for each in warnings] == [warning]
    assert found.ratio in (None, 1.0)
    assert found.trace_of({"traceparent": PARENT}).context == {"traceparent": PARENT}


@pytest.mark.parametrize(
    ("given", "loggers", "environment", "ratio"),
    [
        ({}, ("otel",), ENDPOINT, 1.0),
        ({}, ("otel",), {"OTEL_TRACES_EXPORTER": "console"}, 1.0),
        ({}, ("otel",), ENDPOINT | variables("traceidratio", "0.5"), 0.5),
        ({}, ("otel",), ENDPOINT | variables("always_on"), 1.0),
        ({}, ("prometheus",), ENDPOINT | variables("always_on"), None),
        ({}, ("otel",), variables("always_on"), None),
        ({"logger.otel.traces_endpoint": "http://c"}, ("otel",), {}, 1.0),
        (
            {"logger.otel.traces_endpoint": "http://c"},
            ("otel",),
            variables("parentbased_traceidratio", "0.5"),
            0.5,
        ),
        (
            {"config.observers.trace_ratio": 0.1},
            ("otel",),
            ENDPOINT | variables("always_on"),
            0.1,
        ),
    ],
)
def test_sampler_sets_the_ratio_unless_an_option_does(
    given: dict[str, object],
    loggers: tuple[str, ...],
    environment: dict[str, str],
    ratio: float | None,
) -> None:
    """Where traces are exported."""
    found = completed(given, loggers, environment)

    assert found.get("config.observers.trace_ratio") == ratio
