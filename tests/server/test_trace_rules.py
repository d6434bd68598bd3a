"""Which traces of clients are continued, by OpenTelemetry's variables."""

import pytest
from multidict import CIMultiDict

from hookline.frontend.trace_context import TraceParent
from hookline_server.cli.options.implied import completed
from hookline_server.trace_rules import TraceRules

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
    context = rules().context({"traceparent": header})
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
    found = rules().context({"traceparent": PARENT, "tracestate": state})

    if passed == "abcde":
        passed = ",".join(f"{each}=" + "x" * 98 for each in passed)
    expected = state if passed is None else passed
    assert found.get("tracestate", "") == expected


def test_trace_state_may_come_in_several_headers() -> None:
    """In their order they are one list."""
    headers = CIMultiDict(
        (("traceparent", PARENT), ("tracestate", "a=1"), ("TraceState", "b=2"))
    )

    assert rules().context(headers)["tracestate"] == "a=1,b=2"


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
    """Only the W3C's headers can be read."""
    found = rules(propagators=propagators).context({"traceparent": PARENT})

    assert bool(found) is is_read


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
        context = found.context({"traceparent": f"{PARENT[:-2]}{flags}"})
        parent = TraceParent.of(context)
        assert parent is not None
        assert parent.is_sampled is expected


def test_a_ratio_takes_the_same_traces_everywhere() -> None:
    """The trace id decides, so that other services that use it agree."""
    found = rules("traceidratio", "0.25")
    sampled = [
        found.context({"traceparent": f"00-{part:032x}-{SPAN}-00"})["traceparent"]
        for part in range(1, 1 << 64, (1 << 64) // 100)
    ]

    assert sum(each.endswith("01") for each in sampled) == pytest.approx(25, abs=1)


@pytest.mark.parametrize(
    ("environment", "warning"),
    [
        (variables("jaeger_remote"), "OTEL_TRACES_SAMPLER is ignored: 'jaeger_remote'"),
        (variables("traceidratio", "2"), "OTEL_TRACES_SAMPLER_ARG is ignored: '2'"),
        (variables("traceidratio", "x"), "OTEL_TRACES_SAMPLER_ARG is ignored: 'x'"),
        (variables("", "", "b3,tracecontext"), "OTEL_PROPAGATORS: b3 cannot be read"),
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
    assert found.reads_headers


@pytest.mark.parametrize(
    ("given", "loggers", "environment", "ratio"),
    [
        ({}, ("otel",), ENDPOINT, None),
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
