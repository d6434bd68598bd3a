"""A real Prometheus scrapes loaded servers; other projects' dashboards have data."""

from pathlib import Path

import pytest

from hookline_testing.dashboard_coverage import cover, reasons, table
from hookline_testing.dashboard_expressions import read_dashboards
from hookline_testing.dashboard_load import loaded_pods, nap, scrape_config
from hookline_testing.debian_programs import needed_program
from hookline_testing.prometheus_process import scraping

LISTS = Path(__file__).parent / "expressions"


@pytest.mark.slow
def test_every_expression_has_data_or_a_reason(tmp_path: Path) -> None:
    """Expressions that can have data have it; the reasons of the others are true."""
    program = needed_program("prometheus")

    with (
        loaded_pods() as pods,
        scraping(program, tmp_path, scrape_config(pods)) as prometheus,
    ):
        nap(pods, prometheus)
        found = cover(prometheus, read_dashboards(LISTS), patience_seconds=60.0)

    print(f"{table(found)}\n\n{reasons(found)}")  # noqa: T201 - for pytest -s
    assert [each.text for coverage in found for each in coverage.missing] == []
    assert [each.text for coverage in found for each in coverage.unexpected] == []
