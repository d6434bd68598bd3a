"""The page contains exactly the snapshot."""

from collections.abc import Callable, Iterable

import pytest
from prometheus_client import Metric

from hookline_metrics import CATALOGUE, Family
from hookline_prometheus import PrometheusLogger
from hookline_prometheus.exposition import MediaType
from hookline_testing.payloads import make_started

MakeLogger = Callable[..., PrometheusLogger]
Feed = Callable[[PrometheusLogger], None]
Scrape = Callable[[PrometheusLogger, str], tuple[str, str]]
Parse = Callable[[str, str], dict[str, Metric]]
ToMetrics = Callable[[Iterable[Family], MediaType], list[Metric]]
RenderTheirs = Callable[[list[Metric], MediaType], bytes]

TRACE = '{trace_id="0af7651916cd43dd8448eb211c80319c"}'


def flatten(families: Iterable[Metric]) -> dict[tuple[object, ...], object]:
    """Every number and exemplar, by name and labels; each there only once."""
    found: dict[tuple[object, ...], object] = {}
    for family in families:
        for sample in family.samples:
            if sample.name.startswith(("process_", "python_")):
                continue
            key = (sample.name, *sorted(sample.labels.items()))
            assert key not in found
            exemplar = sample.exemplar and (
                sample.exemplar.labels,
                sample.exemplar.value,
                float(sample.exemplar.timestamp or 0),
            )
            found[key] = (sample.value, exemplar)
    return found


@pytest.mark.parametrize("media_type", MediaType)
def test_whole_catalogue_is_written_as_prometheus_client_does(
    fed: PrometheusLogger,
    scrape: Scrape,
    to_metrics: ToMetrics,
    render_theirs: RenderTheirs,
    media_type: MediaType,
) -> None:
    """Every family of every dialect, byte for byte, ahead of the process's."""
    _, text = scrape(fed, media_type)

    fleeting = {metric.name for metric in CATALOGUE if metric.is_fleeting}
    known = fed.recorder.snapshot()
    snapshot = [family for family in known if family.samples]
    absent = {family.name for family in known} - {family.name for family in snapshot}
    assert absent <= fleeting  # there is no basis for these
    theirs = render_theirs(to_metrics(snapshot, media_type), media_type).decode()
    assert text.startswith(theirs)
    rest = text.removeprefix(theirs).splitlines()
    names = {line.split()[2] for line in rest if line.startswith("# TYPE ")}
    assert {name.partition("_")[0] for name in names} == {"python", "process"}


@pytest.mark.parametrize("media_type", MediaType)
def test_whole_catalogue_can_be_read_back(
    fed: PrometheusLogger,
    scrape: Scrape,
    parse: Parse,
    to_metrics: ToMetrics,
    media_type: MediaType,
) -> None:
    """Every number of the snapshot arrives exactly, and no other; so do exemplars."""
    found = flatten(parse(*scrape(fed, media_type)).values())

    assert found == flatten(to_metrics(fed.recorder.snapshot(), media_type))


@pytest.mark.parametrize("media_type", MediaType)
def test_repeated_scrape_is_identical(
    make_logger: MakeLogger, feed: Feed, scrape: Scrape, media_type: MediaType
) -> None:
    """Whatever is reused between two scrapes, the bytes are those of a first one."""
    scraped, fresh = make_logger(), make_logger()
    scrape(scraped, media_type)
    for logger in (scraped, fresh):
        logger.engine_started(make_started())
    for _ in range(3):
        scrape(scraped, media_type)
        feed(scraped)
        feed(fresh)

    pages = [scrape(logger, media_type)[1] for logger in (scraped, fresh)]

    before_process = [page.partition("# HELP p")[0] for page in pages]
    assert before_process[0] == before_process[1]
    assert "\nvllm:generation_tokens_total" in before_process[0]


def test_exemplars_are_in_openmetrics_only(
    fed: PrometheusLogger, scrape: Scrape
) -> None:
    """The bucket of a traced request names its trace; the classic text never does."""
    _, text = scrape(fed, "")
    _, openmetrics = scrape(fed, MediaType.OPENMETRICS)

    [line] = [
        line
        for line in openmetrics.splitlines()
        if line.startswith("hookline_time_to_first_token_seconds") and " # " in line
    ]
    assert line.partition("} ")[0].endswith('model_name="tiny"')
    assert line.endswith(f" 1.0 # {TRACE} 0.02 1800000000.0")
    assert "trace_id" not in text


def test_replaced_buckets_are_on_the_page(
    make_logger: MakeLogger, feed: Feed, scrape: Scrape
) -> None:
    """An override shows in its own histogram, and in no other of the same sums."""
    theirs = "vllm:inter_token_latency_seconds"
    logger = make_logger(histogram_buckets={theirs: (0.02, 2_000_000.0)})
    logger.engine_started(make_started())
    feed(logger)

    lines = scrape(logger, "")[1].splitlines()

    head = f'{theirs}_bucket{{engine="0",le="'
    tail = '",model_name="tiny"}'
    assert [line for line in lines if line.startswith(head)] == [
        f"{head}0.02{tail} 3.0",
        f"{head}2e+06{tail} 4.0",
        f"{head}+Inf{tail} 4.0",
    ]
    ours = f'hookline_inter_token_seconds_bucket{{engine="0",le="0.01{tail} 3.0'
    assert ours in lines
