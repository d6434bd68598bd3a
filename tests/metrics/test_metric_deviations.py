"""Deviations of names in other dialects, and the page about them."""

import re
from pathlib import Path

from hookline_metrics import CATALOGUE, DIALECTS, NOT_APPLICABLE, OWN_DIALECT
from hookline_metrics.deviation_document import deviation_document
from hookline_metrics.dialects.deviations import DEVIATIONS
from hookline_metrics.readings import ALWAYS_ZERO
from hookline_testing.table_walk import for_each_row

PAGE = Path(__file__).parents[2] / "docs" / "deviations.md"
OTHERS = [dialect for dialect in DIALECTS if dialect != OWN_DIALECT]
NAMED = [
    (metric, alias)
    for metric in CATALOGUE
    for dialect in OTHERS
    for alias in metric.aliases(dialect)
]


def test_page_of_deviations_is_up_to_date() -> None:
    """docs/deviations.md is what the catalogue gives."""
    assert PAGE.read_text(encoding="utf-8") == deviation_document()


def test_page_has_each_name_once() -> None:
    """Each name of the other dialects has one entry, or stands with its reason."""
    page = deviation_document()
    entries = re.findall(r"^`((?:vllm:|sglang:|http_)\w+)`", page, flags=re.MULTILINE)
    reasons = re.findall(r"^- ([^`]+): (`.*`)$", page, flags=re.MULTILINE)
    stated = {
        name: reason for reason, names in reasons for name in names.split("`")[1::2]
    }

    assert len(entries) == len(set(entries))
    assert set(entries) == {metric.exposed(alias.name) for metric, alias in NAMED}
    for dialect in OTHERS:
        assert NOT_APPLICABLE[dialect].items() <= stated.items()


def test_each_letter_of_an_entry_is_explained() -> None:
    """What stands at the top is used below, and the other way round."""
    for section in re.split(r"^## ", deviation_document(), flags=re.MULTILINE)[1:]:
        explained = set(re.findall(r"^- ([A-Z]): ", section, flags=re.MULTILINE))
        lines = [line for line in section.splitlines() if line.startswith("`")]
        used = {
            letter
            for line in lines
            for letter in re.findall(r"(?<=[(; ])[A-Z](?=[); ]|$)", line)
        }

        assert explained
        assert used == explained


def test_zeros_by_nature_say_why_and_what_the_original_shows() -> None:
    """A name is marked as zero exactly if its value is, with reason and deviation."""
    for metric, alias in NAMED:
        assert (alias.zero is not None) == (metric.value is ALWAYS_ZERO), alias.name
        if alias.zero is not None:
            assert alias.zero, alias.name
            assert alias.deviation, alias.name


def test_deviations_are_of_names_there_are() -> None:
    """Each deviation belongs to a name, and to all metrics that share the name."""
    assert set(DEVIATIONS) <= {alias.name for _, alias in NAMED}
    assert all(DEVIATIONS.get(alias.name) == alias.deviation for _, alias in NAMED)


@for_each_row("name", DEVIATIONS)
def test_deviation_fits_into_a_line(name: str) -> None:
    """A deviation is ASCII on one line, without a bar that would make a table."""
    text = DEVIATIONS[name]

    assert text
    assert text.isascii()
    assert not {"|", "\n"} & set(text)
