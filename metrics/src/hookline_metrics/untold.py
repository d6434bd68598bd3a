"""The metrics that an engine of another kind does not report: a section of its facts.

Loggers leave them out, because a 0 would be wrong.
"""

from collections.abc import Collection

import msgspec

from hookline.sections import Section, Sections

UNTOLD = "untold"


class Untold(msgspec.Struct, frozen=True):
    """The section.

    Attributes:
        metrics: Names of metrics for which it has no values, in Hookline's dialect.
    """

    metrics: tuple[str, ...] = ()


_SECTION = Section(UNTOLD, Untold)


def untold_metrics(sections: Sections) -> Collection[str]:
    """Returns the names of the metrics of which an engine with these facts has none."""
    found = _SECTION.read(sections) if sections else None
    return () if found is None else found.metrics
