"""Counts which expressions of other projects' dashboards have data from Hookline.

usage: python benchmarks/dashboard_coverage.py [--folder tests/dashboards/expressions]
                                               [--patience 45] [--reasons]

Needs `prometheus`, on PATH or where `make programs` puts it. It scrapes two
servers of the demo model under load; all expressions of the folder's lists are then
queried. Prints a table: dashboard × expressions × data.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from hookline_testing.dashboard_coverage import cover, reasons, table
from hookline_testing.dashboard_expressions import read_dashboards
from hookline_testing.dashboard_load import loaded_pods, nap, scrape_config
from hookline_testing.debian_programs import find_program
from hookline_testing.prometheus_process import scraping

LISTS = Path(__file__).parents[1] / "tests" / "dashboards" / "expressions"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=LISTS)
    parser.add_argument("--patience", type=float, default=45.0, metavar="SECONDS")
    parser.add_argument(
        "--reasons", action="store_true", help="also why expressions have no data"
    )
    options = parser.parse_args()
    program = find_program("prometheus")
    if program is None:
        sys.exit("There is no prometheus; `make programs` gets it.")
    dashboards = read_dashboards(options.folder)
    with (
        tempfile.TemporaryDirectory() as folder,
        loaded_pods() as pods,
        scraping(program, Path(folder), scrape_config(pods)) as prometheus,
    ):
        nap(pods, prometheus)
        found = cover(prometheus, dashboards, patience_seconds=options.patience)
    print(table(found))
    if options.reasons:
        print(f"\n{reasons(found)}")
    for coverage in found:
        for each in coverage.unexpected:
            print(f"has data after all: {coverage.dashboard.name}: {each.text}")


if __name__ == "__main__":
    main()
