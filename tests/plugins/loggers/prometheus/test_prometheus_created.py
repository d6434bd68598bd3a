"""`_created` samples, which an option adds to OpenMetrics."""

from collections.abc import Callable, Iterable

import pytest
from prometheus_client import Metric

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import EngineConfig
from hookline_prometheus import PrometheusLogger
from hookline_prometheus.exposition import MediaType
from hookline_prometheus.options import Options
from hookline_testing.payloads import make_started

MakeLogger = Callable[..., PrometheusLogger]
Feed = Callable[[PrometheusLogger], None]
Scrape = Callable[[PrometheusLogger, str], tuple[str, str]]
Parse = Callable[[str, str], dict[str, Metric]]
ToMetrics = Callable[..., list[Metric]]
RenderTheirs = Callable[[list[Metric], MediaType], bytes]

CREATED = Options(has_created_series=True)


@pytest.fixture
def logger(make_logger: MakeLogger, feed: Feed) -> PrometheusLogger:
    """With the option, of an engine that has done something of everything."""
    logger = make_logger(options=CREATED)
    logger.engine_started(make_started())
    feed(logger)
    return logger


def of_the_catalogue(families: dict[str, Metric]) -> Iterable[Metric]:
    return (
        family
        for name, family in families.items()
        if not name.startswith(("process_", "python_"))
    )


def test_whole_catalogue_is_written_as_prometheus_client_does(
    logger: PrometheusLogger,
    scrape: Scrape,
    to_metrics: ToMetrics,
    render_theirs: RenderTheirs,
) -> None:
    """Every family of every dialect is, byte for byte, what prometheus_client writes
    with these samples."""
    _, text = scrape(logger, MediaType.OPENMETRICS)

    snapshot = [family for family in logger.recorder.snapshot() if family.samples]
    metrics = to_metrics(snapshot, MediaType.OPENMETRICS, has_created=True)
    assert text.startswith(render_theirs(metrics, MediaType.OPENMETRICS).decode())


def test_every_series_that_counts_has_one(
    logger: PrometheusLogger, scrape: Scrape, parse: Parse
) -> None:
    """Each series of a counter, histogram or summary has a creation time, no gauge."""
    families = parse(*scrape(logger, MediaType.OPENMETRICS))

    for family in of_the_catalogue(families):
        first = {
            "counter": "_total",
            "histogram": "_count",
            "summary": "_count",
        }.get(family.type)
        names = [sample.name for sample in family.samples]
        expected = 0 if first is None else names.count(f"{family.name}{first}")
        assert names.count(f"{family.name}_created") == expected


def test_classic_text_is_as_without_the_option(
    logger: PrometheusLogger, make_logger: MakeLogger, feed: Feed, scrape: Scrape
) -> None:
    """The option changes only pages in OpenMetrics."""
    plain = make_logger()
    plain.engine_started(make_started())
    feed(plain)

    pages = [scrape(each, MediaType.TEXT)[1] for each in (logger, plain)]

    before_process = [page.partition("# HELP p")[0] for page in pages]
    assert before_process[0] == before_process[1]


def test_time_is_that_of_the_start(scrape: Scrape, parse: Parse) -> None:
    """The front end counts since it is there, an engine since its first start."""
    clock = VirtualClock(100 * NANOSECONDS)
    logger = PrometheusLogger(EngineConfig(), CREATED, clock=clock)
    clock.sleep(5.25)
    logger.engine_started(make_started())
    clock.sleep(5)
    logger.engine_started(make_started())

    families = parse(*scrape(logger, MediaType.OPENMETRICS))

    def created(name: str) -> set[float]:
        samples = families[name].samples
        return {each.value for each in samples if each.name == f"{name}_created"}

    assert created("hookline_generation_tokens") == {105.25}
    assert created("vllm:inter_token_latency_seconds") == {105.25}
    assert created("hookline_event_loop_stalls") == {100.0}
