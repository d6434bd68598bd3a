"""Native histograms on the page in protobuf, read with Google's library."""

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP
from hypothesis import given
from hypothesis import strategies as st

from hookline.pages import PageRequest
from hookline.stats.iteration_stats import FirstToken, IterationStats
from hookline_metrics import ZERO_THRESHOLD, HistogramValue, NativeBuckets
from hookline_prometheus import PrometheusLogger
from hookline_prometheus.native_message import native_fields
from hookline_prometheus.options import Options
from hookline_testing.payloads import FACTS, make_started, make_step

Feed = Callable[[PrometheusLogger], None]
MakeLogger = Callable[..., PrometheusLogger]

PROTOBUF = (
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; "
    "encoding=delimited"
)
PACKAGE = "io.prometheus.client"

# The published messages, as far as the page has them: fields by number, with the name
# of their type; a star means that the field repeats.
MESSAGES: Mapping[str, Mapping[int, tuple[str, str]]] = {
    "LabelPair": {1: ("name", "string"), 2: ("value", "string")},
    "Gauge": {1: ("value", "double")},
    "Counter": {
        1: ("value", "double"),
        2: ("exemplar", "Exemplar"),
        3: ("created_timestamp", "Timestamp"),
    },
    "Summary": {
        1: ("sample_count", "uint64"),
        2: ("sample_sum", "double"),
        4: ("created_timestamp", "Timestamp"),
    },
    "Histogram": {
        1: ("sample_count", "uint64"),
        2: ("sample_sum", "double"),
        3: ("bucket", "Bucket*"),
        4: ("sample_count_float", "double"),
        5: ("schema", "sint32"),
        6: ("zero_threshold", "double"),
        7: ("zero_count", "uint64"),
        8: ("zero_count_float", "double"),
        9: ("negative_span", "BucketSpan*"),
        10: ("negative_delta", "sint64*"),
        11: ("negative_count", "double*"),
        12: ("positive_span", "BucketSpan*"),
        13: ("positive_delta", "sint64*"),
        14: ("positive_count", "double*"),
        15: ("created_timestamp", "Timestamp"),
        16: ("exemplars", "Exemplar*"),
    },
    "Bucket": {
        1: ("cumulative_count", "uint64"),
        2: ("upper_bound", "double"),
        3: ("exemplar", "Exemplar"),
        4: ("cumulative_count_float", "double"),
    },
    "BucketSpan": {1: ("offset", "sint32"), 2: ("length", "uint32")},
    "Exemplar": {
        1: ("label", "LabelPair*"),
        2: ("value", "double"),
        3: ("timestamp", "Timestamp"),
    },
    "Metric": {
        1: ("label", "LabelPair*"),
        2: ("gauge", "Gauge"),
        3: ("counter", "Counter"),
        4: ("summary", "Summary"),
        7: ("histogram", "Histogram"),
    },
    "MetricFamily": {
        1: ("name", "string"),
        2: ("help", "string"),
        3: ("type", "int32"),
        4: ("metric", "Metric*"),
    },
}


def _classes() -> Mapping[str, Any]:
    """Makes the messages' classes, in the syntax of version 2 as published."""
    field_type = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="metrics.proto",
        package=PACKAGE,
        syntax="proto2",
        dependency=[TIMESTAMP.name],
    )
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, of) in fields.items():
            kind = of.removesuffix("*")
            added = message.field.add(name=field, number=number)
            added.label = (
                field_type.LABEL_REPEATED if "*" in of else field_type.LABEL_OPTIONAL
            )
            if kind in MESSAGES:
                added.type_name = f".{PACKAGE}.{kind}"
            elif kind == "Timestamp":
                added.type_name = ".google.protobuf.Timestamp"
            added.type = (
                field_type.TYPE_MESSAGE
                if added.type_name
                else field_type.Type.Value(f"TYPE_{kind.upper()}")
            )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(TIMESTAMP.serialized_pb)
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{PACKAGE}.{name}")
        )
        for name in MESSAGES
    }


CLASSES = _classes()


def body_of(logger: PrometheusLogger, accept: str = PROTOBUF) -> bytes:
    return logger.page(PageRequest(headers={"accept": accept}, query={})).body


def messages_of(page: bytes) -> Iterator[bytes]:
    """Splits a page at the lengths."""
    at = 0
    while at < len(page):
        size, shift = 0, 0
        while True:
            byte = page[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        yield page[at : at + size]
        at += size


def families_of(logger: PrometheusLogger) -> dict[str, Any]:
    found = [
        CLASSES["MetricFamily"].FromString(each)
        for each in messages_of(body_of(logger))
    ]
    return {family.name: family for family in found}


def histograms_of(logger: PrometheusLogger) -> dict[tuple[str, tuple[str, ...]], Any]:
    """All histograms by name and values of their labels, in the order of the names."""
    return {
        (name, tuple(label.value for label in metric.label)): metric.histogram
        for name, family in families_of(logger).items()
        for metric in family.metric
        if metric.HasField("histogram")
    }


def counts_of(histogram: Any) -> dict[int, int]:
    """Decodes spans and deltas to the counts that are not 0."""
    counts, index, count = dict[int, int](), 0, 0
    deltas = iter(histogram.positive_delta)
    for span in histogram.positive_span:
        index += span.offset
        for _ in range(span.length):
            count += next(deltas)
            counts[index] = count
            index += 1
    assert next(deltas, None) is None
    return {index: count for index, count in counts.items() if count}


def test_page_is_what_googles_library_writes(fed: PrometheusLogger) -> None:
    """Read and written again, every message is the same to the byte: no field is
    unknown, in another order or longer than it must be."""
    for written in messages_of(body_of(fed)):
        family = CLASSES["MetricFamily"].FromString(written)

        family.DiscardUnknownFields()

        assert family.SerializeToString(deterministic=True) == written


def test_page_has_the_recorders_buckets(fed: PrometheusLogger) -> None:
    """Every histogram is a native one, too, with the counts of the snapshot."""
    found = histograms_of(fed)

    expected = {
        (family.name, tuple(value for _, value in sorted(
            zip(family.label_names, sample.labels, strict=True)
        ))): sample.value.native
        for family in fed.recorder.snapshot(with_native=True)
        for sample in family.samples
        if family.kind == "histogram" and isinstance(sample.value, HistogramValue)
    }  # fmt: skip
    assert len(found) == len(expected) > 50
    for key, buckets in expected.items():
        assert buckets is not None
        histogram = found[key]
        assert histogram.schema == buckets.schema == 3
        assert histogram.zero_threshold == ZERO_THRESHOLD
        assert histogram.zero_count == buckets.zero_count
        assert counts_of(histogram) == buckets.counts
        total = histogram.zero_count + sum(counts_of(histogram).values())
        assert total == histogram.sample_count == histogram.bucket[-1].cumulative_count


def test_histogram_without_observations_is_native(make_logger: MakeLogger) -> None:
    """It has a zero bucket of some width, by which readers know it."""
    logger = make_logger("hookline")
    logger.engine_started(make_started())

    key = ("hookline_time_to_first_token_seconds", ("0", "tiny"))
    histogram = histograms_of(logger)[key]

    assert histogram.HasField("schema")
    assert histogram.zero_threshold > 0
    assert histogram.HasField("zero_count")
    assert (histogram.sample_count, histogram.zero_count) == (0, 0)
    assert not histogram.positive_span


def test_texts_are_as_without_native_histograms(
    make_logger: MakeLogger, feed: Feed
) -> None:
    """The option changes no byte of the pages in text."""
    pages = []
    for schema in (None, 3):
        logger = make_logger(options=Options(native_schema=schema))
        logger.engine_started(make_started(FACTS))
        feed(logger)
        for accept in ("text/plain", "application/openmetrics-text"):
            page = body_of(logger, accept).partition(b"# HELP process_")[0]
            pages.append((accept, page))

    assert pages[:2] == pages[2:]


def test_without_the_option_there_are_only_classic_buckets(
    make_logger: MakeLogger, feed: Feed
) -> None:
    """No field of native histograms is on the page, and nothing is counted for it."""
    logger = make_logger(options=Options(native_schema=None))
    logger.engine_started(make_started(FACTS))
    feed(logger)

    for histogram in histograms_of(logger).values():
        assert histogram.bucket
        assert not histogram.HasField("schema")
        assert not histogram.HasField("zero_threshold")
        assert not histogram.positive_span


def test_too_many_buckets_become_wider(make_logger: MakeLogger) -> None:
    """The limit halves the resolution of one histogram, and of no other."""
    logger = make_logger("hookline", options=Options(native_max_buckets=20))
    logger.engine_started(make_started(FACTS))
    source = random.Random(5)  # noqa: S311 - no secret
    for _ in range(500):
        seconds = source.lognormvariate(-3, 2)
        first = FirstToken(seconds=seconds, prefill_seconds=0.25)
        logger.step_finished(make_step(IterationStats(first_tokens=(first,))))

    found = histograms_of(logger)

    wide = found["hookline_time_to_first_token_seconds", ("0", "tiny")]
    narrow = found["hookline_request_prefill_seconds", ("0", "tiny")]
    assert 10 < len(counts_of(wide)) <= 20
    assert wide.schema == 0
    assert sum(counts_of(wide).values()) == wide.sample_count == 500
    assert (narrow.schema, counts_of(narrow)) == (3, {-16: 500})


@given(
    st.dictionaries(st.integers(-40, 400), st.integers(1, 2**40), max_size=30),
    st.integers(0, 2**40),
    st.integers(-4, 8),
)
def test_any_buckets_are_read_as_they_were_written(
    counts: dict[int, int], zero_count: int, schema: int
) -> None:
    """Gaps, large counts and negative indices survive; no span is empty."""
    buckets = NativeBuckets(schema, zero_count, counts)

    histogram = CLASSES["Histogram"].FromString(native_fields(buckets))

    assert (histogram.schema, histogram.zero_count) == (schema, zero_count)
    assert counts_of(histogram) == counts
    assert all(span.length for span in histogram.positive_span)
    assert all(span.offset > 2 for span in histogram.positive_span[1:])
