"""Which panels have numbers for which engine: `python -m hookline_dashboards.coverage`.

The table is in docs/engines.md; a test compares the two.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from hookline_dashboards.expressions import Names
from hookline_dashboards.panel import Panel, Row
from hookline_dashboards.rows import dashboard_rows
from hookline_metrics import CATALOGUE
from hookline_metrics.engine_tells import EngineTells, declared_by

ENGINES = ("native", "vllm-attached", "gateway")
"""Those on the page: of Hookline, attached, and from outside."""


class Fed(StrEnum):
    """Whether an expression has numbers."""

    ALWAYS = "always"
    SOMETIMES = "sometimes"
    """On a condition of the engine, or once a feature is on."""
    NEVER = "never"


def fed(expression: str, engine: EngineTells, names: Names) -> Fed:
    """Returns whether all metrics of an expression are fed by an engine."""
    metrics = names.used_in(expression)
    if any(engine.why_absent(each) is not None for each in metrics):
        return Fed.NEVER
    if any(each.feature or engine.condition_of(each) for each in metrics):
        return Fed.SOMETIMES
    return Fed.ALWAYS


def fed_panels(row: Row, engine: EngineTells, names: Names) -> Sequence[Panel]:
    """Returns the panels of a row of which an engine can feed an expression."""
    return [
        panel
        for panel in row.panels
        if any(
            fed(query.expression, engine, names) is not Fed.NEVER
            for query in panel.queries
        )
    ]


def table(engines: Mapping[str, EngineTells]) -> str:
    """Returns a line for each row, with the panels that each engine can feed."""
    names = Names(CATALOGUE)

    def lines() -> Iterator[Sequence[str]]:
        yield ["row", "panels", *(f"`{name}`" for name in engines)]
        yield ["---"] * (2 + len(engines))
        for row in dashboard_rows(CATALOGUE):
            counts = [len(fed_panels(row, each, names)) for each in engines.values()]
            yield [row.title, str(len(row.panels)), *map(str, counts)]

    return "\n".join(f"|{'|'.join(cells)}|" for cells in lines())


def document() -> str:
    """Returns the table of the engines on the page."""
    return table({name: declared_by(name) for name in ENGINES})


if __name__ == "__main__":
    sys.stdout.write(f"{document()}\n")
