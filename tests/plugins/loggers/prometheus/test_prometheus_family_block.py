"""A family's lines: those of prometheus_client, whatever the family holds."""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families as parse_text

from hookline_metrics import Exemplar, Family, HistogramValue, Kind, Sample
from hookline_prometheus.exposition import MediaType
from hookline_prometheus.family_block import FamilyBlock

ToMetrics = Callable[..., list[Metric]]
RenderTheirs = Callable[[list[Metric], MediaType], bytes]

END = b"# EOF\n"

parse_openmetrics: Callable[[str], Iterable[Metric]] = (
    openmetrics_parser.text_string_to_metric_families
)

FLOATS = st.floats() | st.integers(0, 10**18).map(float) | st.integers(0, 10**9)
EXEMPLARS = st.builds(
    Exemplar,
    trace_id=st.text("0123456789abcdef", min_size=1, max_size=32),
    value=st.floats(allow_nan=False),
    at=st.floats(0, 4e9),
    span_id=st.text("0123456789abcdef", max_size=16),
)


def family_of(*samples: Sample, labels: tuple[str, ...] = (), **more: str) -> Family:
    """A family made by hand."""
    return Family(
        name=more.get("name", "x_seconds"),
        kind=Kind(more.get("kind", "gauge")),
        unit="seconds",
        help=more.get("help", "Xs."),
        label_names=labels,
        samples=samples,
    )


@st.composite
def families(draw: st.DrawFn) -> Family:
    """A family of any kind, with whatever can be in one."""
    kind = draw(st.sampled_from(Kind))
    names = draw(st.lists(st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]{0,4}", fullmatch=True)))
    names = [name for name in dict.fromkeys(names) if name != "le"]
    bounds = sorted(draw(st.sets(st.floats(0.001, 1e9), max_size=4)))
    buckets = len(bounds) + 1
    histograms = st.builds(
        HistogramValue,
        bounds=st.just(tuple(bounds)),
        counts=st.tuples(*[st.integers(0, 3_000_000)] * buckets),
        sum=FLOATS,
        exemplars=st.dictionaries(st.integers(0, buckets - 1), EXEMPLARS),
    )
    is_plain = kind in {Kind.COUNTER, Kind.GAUGE}
    rows = draw(st.sets(st.tuples(*[st.text()] * len(names)), max_size=3))
    values: st.SearchStrategy[float | HistogramValue] = (
        FLOATS if is_plain else histograms
    )
    times = st.none() if kind is Kind.GAUGE else st.none() | st.floats(0, 4e9)
    samples = [Sample(row, draw(values), draw(times)) for row in sorted(rows)]
    name = draw(st.sampled_from(["x_seconds", "v:x_total", "v:x_info", "x"]))
    text = draw(st.text())
    return family_of(*samples, labels=tuple(names), name=name, kind=kind, help=text)


@given(family=families(), has_created=st.booleans())
@pytest.mark.parametrize("media_type", [MediaType.TEXT, MediaType.OPENMETRICS])
def test_family_is_written_as_prometheus_client_does(
    media_type: MediaType,
    to_metrics: ToMetrics,
    render_theirs: RenderTheirs,
    family: Family,
    has_created: bool,
) -> None:
    """Byte for byte the same in both formats; nothing for a family without samples."""
    block = FamilyBlock(family, media_type, has_created=has_created)

    lines = block.render(family.samples)

    metrics = to_metrics([family], media_type, has_created=has_created)
    theirs = render_theirs(metrics, media_type)
    assert lines == (theirs if family.samples else b"")


@given(before=families(), data=st.data())
def test_reused_parts_give_the_same_bytes(before: Family, data: st.DataObject) -> None:
    """After a change a family looks as though it had never been another."""
    block = FamilyBlock(before, MediaType.OPENMETRICS, has_created=True)
    block.render(before.samples)
    changed = data.draw(st.permutations(before.samples))[1:]
    now = tuple(
        Sample(each.labels, before.samples[0].value, before.samples[0].since)
        for each in changed
    )

    lines = block.render(now)

    fresh = FamilyBlock(before, MediaType.OPENMETRICS, has_created=True)
    assert lines == fresh.render(now)
    assert set(block._series) == {sample.labels for sample in now}


def test_unchanged_family_is_not_written_again() -> None:
    """Equal samples get the lines that were made for those before."""
    family = family_of(Sample(("a",), 1.0), labels=("who",))
    block = FamilyBlock(family, MediaType.TEXT)

    lines = block.render(family.samples)

    assert block.render((Sample(("a",), 1.0),)) is lines
    assert block.render((Sample(("a",), 2.0),)) != lines


@given(value=st.text())
@example('"\\\n\\n{}=,# "')
@example("\r\x00\x85\u2028\x1c tail ")
@example("naïve 模型 🪝")
def test_label_value_survives(value: str) -> None:
    """Any text in a label comes back as it was, in both formats."""
    family = family_of(Sample((value,), 1.0), labels=("who",))
    text = FamilyBlock(family, MediaType.TEXT).render(family.samples).decode()
    block = FamilyBlock(family, MediaType.OPENMETRICS)
    openmetrics = (block.render(family.samples) + END).decode()

    [[read], [read_openmetrics]] = parse_text(text), parse_openmetrics(openmetrics)

    assert read.samples[0].labels == {"who": value}
    assert read_openmetrics.samples[0].labels == {"who": value}


def test_undecodable_label_value_keeps_its_bytes() -> None:
    """Half characters, as undecodable headers leave them, stay apart on the page."""
    samples = (Sample(("a\udc80",), 1.0), Sample(("a\udc81",), 2.0))
    family = family_of(*samples, labels=("who",))

    lines = FamilyBlock(family, MediaType.TEXT).render(samples).decode()

    [read] = parse_text(lines)
    assert {s.labels["who"]: s.value for s in read.samples} == {
        r"a\udc80": 1.0,
        r"a\udc81": 2.0,
    }


def test_exemplar_that_openmetrics_forbids_is_left_out() -> None:
    """Ids that are too long cost their exemplar, not the page."""
    exemplars = {
        0: Exemplar("f" * 100, 0.5, 1.0, "f" * 13),
        1: Exemplar("f" * 100, 2.0, 1.0, "f" * 14),
    }
    value = HistogramValue((1.0,), (1, 1), 2.5, exemplars)
    family = family_of(Sample((), value), kind="histogram")

    block = FamilyBlock(family, MediaType.OPENMETRICS)
    lines = (block.render(family.samples) + END).decode()

    [read] = parse_openmetrics(lines)
    marked = {s.labels.get("le") for s in read.samples if s.exemplar}
    assert marked == {"1.0"}
