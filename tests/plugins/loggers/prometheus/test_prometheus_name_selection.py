"""Scrapes that ask for some families by name."""

from collections.abc import Callable

import pytest
from prometheus_client import Metric

from hookline.pages import PageRequest
from hookline_metrics import DIALECTS
from hookline_prometheus import PrometheusLogger
from hookline_prometheus.exposition import MediaType
from hookline_testing.payloads import make_started

MakeLogger = Callable[..., PrometheusLogger]
Feed = Callable[[PrometheusLogger], None]
Parse = Callable[[str, str], dict[str, Metric]]

OF_A_DIALECT = {
    "hookline": ("hookline_inter_token_seconds", "hookline_generation_tokens"),
    "vllm": ("vllm:inter_token_latency_seconds", "vllm:generation_tokens"),
    "sglang": ("sglang:inter_token_latency_seconds", "sglang:generation_tokens"),
}


def page_of(
    logger: PrometheusLogger, media_type: MediaType, *names: str
) -> tuple[str, str]:
    """The content type and text of what the names select."""
    request = PageRequest(
        headers={"accept": media_type}, query={}, query_values={"name[]": names}
    )
    answer = logger.page(request)
    assert answer.status == 200
    return answer.content_type, answer.body.decode()


def families_of(text: str) -> dict[str, str]:
    """The lines of each family, from its HELP on, by name."""
    blocks = text.removesuffix("# EOF\n").split("# HELP ")[1:]
    return {block.split()[0]: block for block in blocks}


def test_every_dialect_has_a_case() -> None:
    """A new dialect brings names to this file."""
    assert set(OF_A_DIALECT) == set(DIALECTS)


@pytest.mark.parametrize("media_type", [MediaType.TEXT, MediaType.OPENMETRICS])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_families_are_those_of_the_whole_page(
    fed: PrometheusLogger, parse: Parse, media_type: MediaType, dialect: str
) -> None:
    """Named families come as on the whole page, in its order, and no others do."""
    histogram, counter = OF_A_DIALECT[dialect]
    whole = families_of(page_of(fed, media_type)[1])

    content_type, text = page_of(
        fed, media_type, f"{counter}_total", histogram, "process_cpu_seconds_total"
    )

    assert parse(content_type, text).keys() == {
        *(histogram, counter),
        "process_cpu_seconds",
    }
    found = families_of(text)
    assert list(found.items()) == [
        (name, lines) for name, lines in whole.items() if name in found
    ]


@pytest.mark.parametrize("media_type", [MediaType.TEXT, MediaType.OPENMETRICS])
@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("vllm:num_requests_running", "vllm:num_requests_running"),
        ("vllm:generation_tokens", "vllm:generation_tokens"),
        ("vllm:generation_tokens_total", "vllm:generation_tokens"),
        ("vllm:generation_tokens_created", "vllm:generation_tokens"),
        ("vllm:iteration_tokens_total", "vllm:iteration_tokens_total"),
        ("vllm:iteration_tokens_total_bucket", "vllm:iteration_tokens_total"),
        ("vllm:iteration_tokens_total_count", "vllm:iteration_tokens_total"),
        ("vllm:iteration_tokens_total_sum", "vllm:iteration_tokens_total"),
        ("http_request_size_bytes_sum", "http_request_size_bytes"),
        ("python_gc_collections_total", "python_gc_collections"),
        ("python_gc_collections", "python_gc_collections"),
    ],
)
def test_name_of_a_sample_selects_its_family(
    fed: PrometheusLogger, parse: Parse, media_type: MediaType, name: str, family: str
) -> None:
    """A family is whole, whichever of its names selects it."""
    content_type, text = page_of(fed, media_type, name)

    [found] = parse(content_type, text).values()
    assert found.name == family
    [lines] = [  # to parse the whole page takes most of a second
        lines
        for name, lines in families_of(page_of(fed, media_type)[1]).items()
        if name in (family, f"{family}_total")
    ]
    end = "# EOF\n" if media_type is MediaType.OPENMETRICS else ""
    [whole] = parse(content_type, f"# HELP {lines}{end}").values()
    assert [each[:2] for each in found.samples] == [each[:2] for each in whole.samples]


@pytest.mark.parametrize(
    ("media_type", "empty"), [(MediaType.TEXT, ""), (MediaType.OPENMETRICS, "# EOF\n")]
)
def test_name_that_is_not_there_selects_nothing(
    fed: PrometheusLogger, media_type: MediaType, empty: str
) -> None:
    """An unknown name and a part of a name give an empty page, not an error."""
    names = ("unknown", "vllm:num_requests", "vllm:num_requests_running_total")

    assert page_of(fed, media_type, *names)[1] == empty


def test_names_without_text_select_everything(fed: PrometheusLogger) -> None:
    """`name[]=` is as good as none."""
    whole = page_of(fed, MediaType.TEXT)

    assert page_of(fed, MediaType.TEXT, "", "") == whole


def test_selection_follows_the_engine(make_logger: MakeLogger, feed: Feed) -> None:
    """A selected family has the numbers of the moment, as the whole page has."""
    logger = make_logger("hookline")
    logger.engine_started(make_started())
    line = 'hookline_generation_tokens_total{engine="0",model_name="tiny"} '
    name = "hookline_generation_tokens_total"
    before = page_of(logger, MediaType.TEXT, name)[1]

    feed(logger)

    assert f"\n{line}0.0\n" in before
    assert f"\n{line}4.0\n" in page_of(logger, MediaType.TEXT, name)[1]
    assert f"\n{line}4.0\n" in page_of(logger, MediaType.TEXT)[1]
