"""Compressed pages: for whom, and that they are the same pages."""

import gzip
from collections.abc import Callable

import pytest

from hookline.pages import PageRequest, PageResponse
from hookline_prometheus import PrometheusLogger
from hookline_prometheus.content_coding import accepts_gzip
from hookline_prometheus.exposition import MediaType
from hookline_prometheus.rendered_page import RenderedPage

MakeLogger = Callable[..., PrometheusLogger]
Feed = Callable[[PrometheusLogger], None]


def get(logger: PrometheusLogger, **headers: str) -> PageResponse:
    """Scrapes with these headers, underscores for hyphens."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return logger.page(PageRequest(headers=given, query={}))


@pytest.mark.parametrize(
    ("header", "is_accepted"),
    [
        ("gzip", True),
        ("GZip", True),
        ("x-gzip", True),
        ("deflate, gzip;q=0.5", True),
        ("gzip, deflate, br, zstd", True),
        ("*", True),
        ("*;q=0.1", True),
        ("identity;q=0.5, gzip;q=1.0", True),
        ("identity;q=0, gzip;q=0.001", True),
        ("", False),
        ("identity", False),
        ("deflate, br", False),
        ("gzip;q=0", False),
        ("gzip;q=0, *", False),
        ("*;q=0", False),
        ("gzip;q=nan", False),
        ("gzip;q=2", False),
        ("gzip;q=much", False),
        ("gzip;q=0.5, identity", False),
        ("gzip;q=0.5, *;q=1", False),
        (";;,=,", False),
    ],
)
def test_client_decides_on_compression(header: str, is_accepted: bool) -> None:
    """A page is compressed if gzip is accepted and nothing else is preferred."""
    assert accepts_gzip(header) is is_accepted


@pytest.mark.parametrize("media_type", [MediaType.TEXT, MediaType.OPENMETRICS])
def test_compressed_page_is_the_page(
    fed: PrometheusLogger, media_type: MediaType
) -> None:
    """In each format the page unpacks to what other clients get, and says so."""
    plain = get(fed, accept=media_type)
    packed = get(fed, accept=media_type, accept_encoding="gzip")

    assert gzip.decompress(packed.body) == plain.body
    assert packed.content_type == plain.content_type
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert plain.headers["Vary"] == packed.headers["Vary"] == "Accept, Accept-Encoding"


def test_compressed_page_is_a_small_part_of_it(fed: PrometheusLogger) -> None:
    """A page shrinks to less than a sixth."""
    plain = get(fed)
    packed = get(fed, accept_encoding="gzip")

    assert len(packed.body) * 6 < len(plain.body)


def test_scrapes_that_share_a_page_share_its_compression() -> None:
    """A page is compressed once; pages with equal text have equal bytes."""
    page = RenderedPage(b"x 1.0\n")

    first, second = page.gzipped(), page.gzipped()

    assert first is second
    assert RenderedPage(b"x 1.0\n").gzipped() == first


def test_new_page_is_compressed_anew(make_logger: MakeLogger, feed: Feed) -> None:
    """A scrape after a change does not get the compressed page from before."""
    logger = make_logger()
    before = get(logger, accept_encoding="gzip").body

    feed(logger)

    after = get(logger, accept_encoding="gzip").body
    assert gzip.decompress(after) == get(logger).body
    assert gzip.decompress(after) != gzip.decompress(before)
