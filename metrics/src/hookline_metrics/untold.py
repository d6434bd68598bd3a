"""The metrics that an engine of another kind does not report: a section of its facts.

Loggers leave them out, because a 0 would be wrong.
"""

from collections.abc import Callable, Collection, Sequence

import msgspec

from hookline.sections import Section, Sections
from hookline_metrics.catalogue import CATALOGUE, DIALECTS
from hookline_metrics.metric import Metric

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


def names_not_fed(is_fed: Callable[[Metric], bool]) -> Sequence[str]:
    """Returns the names, in all dialects, of the metrics that nothing feeds."""
    fed, others = set[str](), dict[str, None]()
    for metric in CATALOGUE:
        for dialect in DIALECTS:
            names = [alias.name for alias in metric.aliases(dialect)]
            if is_fed(metric):
                fed.update(names)
            else:
                others.update(dict.fromkeys(names))
    return [name for name in others if name not in fed]
