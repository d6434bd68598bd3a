"""Pages in protobuf, read by a strict parser, say what the text says."""

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from prometheus_client import Metric

from hookline.pages import PageRequest
from hookline_metrics.wire_format import varint
from hookline_prometheus import PrometheusLogger
from hookline_prometheus.options import Options
from hookline_prometheus.syntax import number
from hookline_testing.payloads import FACTS, make_started

Feed = Callable[[PrometheusLogger], None]
MakeLogger = Callable[..., PrometheusLogger]
Parse = Callable[[str, str], dict[str, Metric]]
Scrape = Callable[[PrometheusLogger, str], tuple[str, str]]
ScrapeType = Callable[[PrometheusLogger, str], str]
Message = dict[str, Any]

PROTOBUF = (
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; "
    "encoding=delimited"
)
OPENMETRICS = "application/openmetrics-text"

KINDS = {0: "counter", 1: "gauge", 2: "summary", 4: "histogram"}

# Of io.prometheus.client and google.protobuf.Timestamp: names and types by number.
# A type in capitals is a message; a star means that the field repeats.
SCHEMA: Mapping[str, Mapping[int, tuple[str, str]]] = {
    "Family": {
        1: ("name", "string"),
        2: ("help", "string"),
        3: ("type", "varint"),
        4: ("metric", "Metric*"),
    },
    "Metric": {
        1: ("label", "Label*"),
        2: ("gauge", "Gauge"),
        3: ("counter", "Counter"),
        4: ("summary", "Summary"),
        7: ("histogram", "Histogram"),
    },
    "Label": {1: ("name", "string"), 2: ("value", "string")},
    "Gauge": {1: ("value", "double")},
    "Counter": {1: ("value", "double"), 3: ("created", "Timestamp")},
    "Summary": {
        1: ("count", "varint"),
        2: ("sum", "double"),
        4: ("created", "Timestamp"),
    },
    "Histogram": {
        1: ("count", "varint"),
        2: ("sum", "double"),
        3: ("bucket", "Bucket*"),
        5: ("schema", "signed"),
        6: ("zero_threshold", "double"),
        7: ("zero_count", "varint"),
        12: ("positive_span", "Span*"),
        13: ("positive_delta", "signed*"),
        15: ("created", "Timestamp"),
    },
    "Span": {1: ("offset", "signed"), 2: ("length", "varint")},
    "Bucket": {
        1: ("cumulative_count", "varint"),
        2: ("upper_bound", "double"),
        3: ("exemplar", "Exemplar"),
    },
    "Exemplar": {
        1: ("label", "Label*"),
        2: ("value", "double"),
        3: ("timestamp", "Timestamp"),
    },
    "Timestamp": {1: ("seconds", "varint"), 2: ("nanos", "varint")},
}


@pytest.fixture
def scrape_type() -> ScrapeType:
    """Gets the content type of a logger's page."""

    def get(logger: PrometheusLogger, accept: str) -> str:
        request = PageRequest(headers={"accept": accept}, query={})
        return logger.page(request).content_type

    return get


class Bytes:
    """Bytes read once from front to back."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, size: int) -> bytes:
        assert self._at + size <= len(self._data), "the page is cut off"
        self._at += size
        return self._data[self._at - size : self._at]

    def varint(self) -> int:
        value, shift = 0, 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                assert byte or shift == 7, "an integer is longer than it must be"
                return value


def parsed(kind: str, data: bytes) -> Message:
    """Reads a message; unknown, repeated and wrongly encoded fields are errors."""
    schema, left, found = SCHEMA[kind], Bytes(data), Message()
    while left:
        number, wire = divmod(left.varint(), 8)
        name, of = schema[number]
        value = field_value(of.removesuffix("*"), wire, left)
        if of.endswith("*"):
            found.setdefault(name, []).append(value)
        else:
            assert name not in found, f"{name} twice"
            found[name] = value
    return found


def field_value(of: str, wire: int, left: Bytes) -> Any:
    assert wire == {"varint": 0, "signed": 0, "double": 1}.get(of, 2)
    match of:
        case "varint":
            return left.varint()
        case "signed":
            number = left.varint()
            return -(number + 1) // 2 if number % 2 else number // 2
        case "double":
            return struct.unpack("<d", left.take(8))[0]
        case "string":
            return left.take(left.varint()).decode()
        case _:
            return parsed(of, left.take(left.varint()))


def scraped(logger: PrometheusLogger, **query: tuple[str, ...]) -> dict[str, Message]:
    names = {f"{key}[]": values for key, values in query.items()}
    request = PageRequest(
        headers={"accept": PROTOBUF},
        query={key: values[-1] for key, values in names.items()},
        query_values=names,
    )
    answer = logger.page(request)
    assert answer.content_type == PROTOBUF
    left, families = Bytes(answer.body), dict[str, Message]()
    while left:
        family = parsed("Family", left.take(left.varint()))
        assert family["name"] not in families
        families[family["name"]] = family
    return families


def labels_of(message: Message) -> dict[str, str]:
    pairs = [(each["name"], each["value"]) for each in message.get("label", [])]
    assert pairs == sorted(set(pairs))
    return dict(pairs)


Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def series_of(family: Message) -> Series:
    """The samples that the family has in text."""
    return {
        (name, frozenset(labels.items())): value
        for metric in family["metric"]
        for name, labels, value in samples_of(family, metric)
    }


def samples_of(
    family: Message, metric: Message
) -> Iterator[tuple[str, dict[str, str], float]]:
    labels, name = labels_of(metric), family["name"]
    value = metric[KINDS[family["type"]]]
    assert metric.keys() <= {"label", KINDS[family["type"]]}
    if "count" not in value:
        yield name, labels, value["value"]
        return
    yield f"{name}_count", labels, value["count"]
    yield f"{name}_sum", labels, value["sum"]
    for bucket in value.get("bucket", []):
        limit = number(bucket["upper_bound"])
        yield f"{name}_bucket", {**labels, "le": limit}, bucket["cumulative_count"]


def text_name(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def test_protobuf_says_what_the_text_says(
    fed: PrometheusLogger, scrape: Scrape, parse: Parse
) -> None:
    """Every family has the help, type, series and numbers of the classic text."""
    text = {text_name(each): each for each in parse(*scrape(fed, "")).values()}

    families = scraped(fed)

    assert list(families) == list(text)
    for name, family in families.items():
        theirs = text[name]
        assert (family["help"], KINDS[family["type"]]) == (
            theirs.documentation,
            theirs.type,
        )
        assert series_of(family) == {
            (each.name, frozenset(each.labels.items())): each.value
            for each in theirs.samples
        }


def test_protobuf_has_the_exemplars_of_openmetrics(
    fed: PrometheusLogger, scrape: Scrape, parse: Parse
) -> None:
    """Buckets have OpenMetrics' exemplars, to the nanosecond."""
    expected = {
        (each.name.removesuffix("_bucket"), frozenset(each.labels.items())): (
            each.exemplar.labels,
            each.exemplar.value,
            float(str(each.exemplar.timestamp)),
        )
        for family in parse(*scrape(fed, OPENMETRICS)).values()
        for each in family.samples
        if each.exemplar
    }

    found = {}
    for name, family in scraped(fed).items():
        for metric in family["metric"]:
            for bucket in metric.get("histogram", {}).get("bucket", []):
                if exemplar := bucket.get("exemplar"):
                    limit = number(bucket["upper_bound"])
                    at = exemplar["timestamp"]
                    key = {**labels_of(metric), "le": limit}
                    found[name, frozenset(key.items())] = (
                        labels_of(exemplar),
                        exemplar["value"],
                        at["seconds"] + at.get("nanos", 0) / 1e9,
                    )

    assert found
    assert found == expected


@pytest.mark.parametrize(
    "accept",
    [
        f"{PROTOBUF};q=0.6, {OPENMETRICS};version=1.0.0;q=0.5, text/plain;q=0.3",
        f"text/plain;q=0.3, {PROTOBUF}",
    ],
)
def test_preferred_protobuf_is_sent(
    fed: PrometheusLogger, scrape_type: ScrapeType, accept: str
) -> None:
    """A client that likes protobuf best, as Prometheus may, gets it."""
    assert scrape_type(fed, accept) == PROTOBUF


@pytest.mark.parametrize(
    "accept",
    [
        f"{PROTOBUF};q=0.2, text/plain;q=0.3",
        f"{PROTOBUF};q=0, text/plain",
        "application/vnd.google.protobuf",
        PROTOBUF.replace("delimited", "text"),
        PROTOBUF.replace("MetricFamily", "Metric"),
    ],
)
def test_other_protobuf_is_not_sent(
    fed: PrometheusLogger, scrape_type: ScrapeType, accept: str
) -> None:
    """Less preferred protobuf, and messages and encodings we lack, give text."""
    assert scrape_type(fed, accept).startswith("text/plain; version=0.0.4")


@pytest.mark.parametrize("is_on", [False, True])
def test_created_timestamps_are_an_option(
    make_logger: MakeLogger, feed: Feed, *, is_on: bool
) -> None:
    """Counts have the time of their beginning only if the option is on."""
    logger = make_logger(options=Options(has_created_series=is_on))
    logger.engine_started(make_started(FACTS))
    feed(logger)

    families = scraped(logger, name=("hookline_request_prefill_seconds",))

    (family,) = families.values()
    created = ["created" in each["histogram"] for each in family["metric"]]
    assert created
    assert set(created) == {is_on}


def test_selection_is_part_of_the_page(fed: PrometheusLogger) -> None:
    """`name[]` selects families of the engine and of the process in protobuf, too."""
    names = ("hookline_request_prefill_seconds_count", "process_cpu_seconds_total")

    families = scraped(fed, name=names)

    assert sorted(families) == [
        "hookline_request_prefill_seconds",
        "process_cpu_seconds_total",
    ]


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**64 - 1])
def test_varints_are_read_as_they_were_written(value: int) -> None:
    """Integers of one to ten bytes survive."""
    assert Bytes(varint(value)).varint() == value
