"""Renders `python -m hookline_metrics.deviation_document > docs/deviations.md`."""

import sys
from collections.abc import Iterable

from hookline_metrics.catalogue import CATALOGUE, DIALECTS
from hookline_metrics.dialects import NOT_APPLICABLE
from hookline_metrics.document import difference
from hookline_metrics.metric import OWN_DIALECT, Alias, Metric

_HEAD = """\
# Deviations from other engines

Made from the catalogue in `metrics/src/hookline_metrics/` by
`python -m hookline_metrics.deviation_document > docs/deviations.md`; do not edit by
hand.

For each family of vLLM and SGLang that the dialects know: whether something feeds it,
whether it is zero by nature, or why it does not apply; then how its labels and buckets
differ from Hookline's own metric, and how its value deviates from what the other engine
shows. A dash: no deviation is known. `hookline metrics list` and `describe` say the
same on the command line. The deviations are those from vLLM 0.33 and SGLang 0.5.
"""

_HEADINGS = (
    "| name | state | made from | deviation from the original |\n|---|---|---|---|"
)


def deviation_document() -> str:
    """Returns the page as Markdown."""
    others = [dialect for dialect in DIALECTS if dialect != OWN_DIALECT]
    return "\n".join((_HEAD, *(_section(dialect) for dialect in others)))


def _section(dialect: str) -> str:
    """Returns the dialect's table, sorted by name."""
    lines: dict[str, str] = {
        name: f"| `{name}` | not applicable: {reason} | - | - |"
        for name, reason in NOT_APPLICABLE.get(dialect, {}).items()
    }
    for name, parts in _families(dialect).items():
        _, alias = parts[0]
        made_from = "; ".join(_made_from(metric, alias) for metric, alias in parts)
        lines[name] = (
            f"| `{name}` | {_state(parts)} | {made_from} | {alias.deviation or '-'} |"
        )
    rows = (lines[name] for name in sorted(lines))
    return "\n".join((f"## `{dialect}`", "", _HEADINGS, *rows, ""))


def _families(dialect: str) -> dict[str, list[tuple[Metric, Alias]]]:
    """Returns the aliases by exposed name; several metrics can share one."""
    found: dict[str, list[tuple[Metric, Alias]]] = {}
    for metric in CATALOGUE:
        for alias in metric.aliases(dialect):
            found.setdefault(metric.exposed(alias.name), []).append((metric, alias))
    return found


def _state(parts: Iterable[tuple[Metric, Alias]]) -> str:
    for metric, alias in parts:
        hidden = ", hidden" if alias.hidden_since else ""
        if alias.zero is not None:
            return f"zero by nature{hidden}: {alias.zero}"
        if metric.feature is not None:
            return f"fed with `--{metric.feature}`{metric.feature.note}{hidden}"
    return f"fed{hidden}"


def _made_from(metric: Metric, alias: Alias) -> str:
    source = f"`{metric.exposed(metric.name)}`" if metric.is_own else metric.help
    differences = difference(alias)
    return f"{source} ({differences})" if differences else source


if __name__ == "__main__":
    sys.stdout.write(deviation_document())
