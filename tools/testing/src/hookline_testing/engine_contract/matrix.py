"""The table of cases and engines."""

from collections.abc import Mapping

from hookline_testing.engine_contract.checking import Outcome
from hookline_testing.engine_contract.scenes import Case


def matrix(outcomes: Mapping[str, Mapping[Case, Outcome]]) -> str:
    """Returns a line for each case, and a column for each engine, as Markdown."""
    head = ["case", *outcomes]
    lines = [head, ["---"] * len(head)]
    lines += [[case, *(found[case] for found in outcomes.values())] for case in Case]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
