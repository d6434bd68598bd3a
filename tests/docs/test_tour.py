"""docs/tour.md is a tour of a few files that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_FILES = 15
MOST_LINES = 3300

TOUR = (ROOT / "docs" / "tour.md").read_text("utf-8")
STOPS = re.findall(r"^## (\d+)\. `([\w./]+\.py)`$", TOUR, flags=re.MULTILINE)


def test_the_tour_has_at_most_fifteen_files() -> None:
    """Each heading is a numbered file, and no file comes twice."""
    headings = re.findall(r"^## ", TOUR, flags=re.MULTILINE)

    assert 0 < len(STOPS) <= MOST_FILES
    assert len(headings) == len(STOPS)
    assert [int(number) for number, _ in STOPS] == list(range(1, len(STOPS) + 1))
    assert len({path for _, path in STOPS}) == len(STOPS)


def test_the_files_of_the_tour_exist() -> None:
    """Each stop names a file of the repository."""
    assert [path for _, path in STOPS if not (ROOT / path).is_file()] == []


def test_the_tour_is_read_in_an_afternoon() -> None:
    """Its files have at most 3300 lines together."""
    lines = [len((ROOT / path).read_text("utf-8").splitlines()) for _, path in STOPS]

    assert sum(lines) <= MOST_LINES


def test_each_stop_has_one_paragraph() -> None:
    """A heading, a paragraph, the next heading."""
    stops = re.split(r"^## .*$", TOUR, flags=re.MULTILINE)[1:]

    assert all(len(stop.strip().split("\n\n")) == 1 for stop in stops)
