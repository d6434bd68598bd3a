"""Parses a page of metrics in Prometheus' text format or in OpenMetrics."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hookline_server.cli.errors import UsageError

SUFFIXES = ("", "_total", "_bucket", "_count", "_sum", "_info")

_TYPE = re.compile(r"# TYPE (?P<name>[A-Za-z_:][\w:]*) (?P<kind>\w+)")
_SAMPLE = re.compile(
    r"(?P<name>[A-Za-z_:][\w:]*)"
    r'(?:\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?'
    r"\s+(?P<value>\S+)"
)
_LABEL = re.compile(r'(?P<name>[A-Za-z_]\w*)="(?P<value>(?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class PageSample:
    """A line of the page.

    Attributes:
        family: Name of its TYPE line, without the suffix of the kind.
        name: Name as written.
    """

    family: str
    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """A whole page.

    Attributes:
        kinds: Kind of each family.
        samples: In the order of the page.
    """

    kinds: Mapping[str, str]
    samples: tuple[PageSample, ...]


def read_page(text: str, source: str) -> MetricsPage:
    """Parses a page.

    Raises:
        UsageError: It holds no metrics, or a malformed line.
    """
    kinds: dict[str, str] = {}
    samples: list[PageSample] = []
    for number, line in enumerate(text.splitlines(), 1):
        if declared := _TYPE.match(line):
            kinds[declared["name"]] = declared["kind"]
        elif line.strip() and not line.startswith("#"):
            samples.append(_sample(line, f"{source}, line {number}", kinds))
    if not kinds:
        raise UsageError(f"{source} holds no metrics")
    return MetricsPage(kinds, tuple(samples))


def _sample(line: str, place: str, kinds: Mapping[str, str]) -> PageSample:
    match = _SAMPLE.match(line)
    if match is None:
        raise UsageError(f"{place} is not a line of metrics")
    found = _LABEL.finditer(match["labels"] or "")
    labels = {label["name"]: label["value"] for label in found}
    try:
        value = float(match["value"])
    except ValueError as error:
        raise UsageError(f"{place}: {match['value']!r} is not a number") from error
    return PageSample(_family(match["name"], kinds), match["name"], labels, value)


def _family(name: str, kinds: Mapping[str, str]) -> str:
    for suffix in SUFFIXES:
        family = name.removesuffix(suffix)
        if name.endswith(suffix) and family in kinds:
            return family
    return name
