"""The catalogue as a page: `python -m hookline.metrics.document > docs/metrics.md`."""

import sys
from collections.abc import Iterable

from hookline.metrics.buckets import BucketFamily, bounds_of
from hookline.metrics.catalogue import CATALOGUE, DIALECTS
from hookline.metrics.metric import COMMON_LABELS, OWN_DIALECT, Alias, Metric

_EXAMPLE_LENGTH = 32768

_HEAD = f"""\
# Metrics

Made from the catalogue in `core/src/hookline/metrics/` by
`python -m hookline.metrics.document > docs/metrics.md`; do not edit by hand.

Every series has the labels {" and ".join(f"`{name}`" for name in COMMON_LABELS)} \
besides its own. All series of an
engine exist from its start, so a 0 is seen before the first event; only labels whose
values cannot be known beforehand come with their first event. A gauge goes to rest
when its engine stops or fails. QUEUED, SCHEDULED, PREEMPTED and NEW_TOKENS are the
engine's events, all on the engine's own clock.
"""


def document() -> str:
    """The whole page."""
    parts = [_HEAD, *(_section(metric) for metric in CATALOGUE), _buckets()]
    parts.extend(_names(dialect) for dialect in DIALECTS if dialect != OWN_DIALECT)
    return "\n".join(parts)


def _section(metric: Metric) -> str:
    age = f"{metric.stability} since {metric.since}"
    facts = [f"- {metric.kind}, unit `{metric.unit}`, {age}"]
    if metric.labels:
        facts.append(f"- labels: {'; '.join(_labels(metric))}")
    if metric.buckets:
        facts.append(f"- buckets: `{metric.buckets}`")
    if metric.replaced_by:
        facts.append(f"- use `{metric.replaced_by}` instead")
    lines = "\n".join(facts)
    return f"## `{metric.exposed(metric.name)}`\n\n{metric.help}\n\n{lines}\n"


def _labels(metric: Metric) -> Iterable[str]:
    for label in metric.labels:
        values = ", ".join(f"`{value}`" for value in label.values)
        yield f"`{label.name}`{f' ({values})' if values else ''}"


def _buckets() -> str:
    lines = ["## Buckets", "", "| family | upper bounds |", "|---|---|"]
    for family in BucketFamily:
        bounds = " ".join(f"{bound:g}" for bound in bounds_of(family, _EXAMPLE_LENGTH))
        lines.append(f"| `{family}` | {bounds} |")
    note = (
        f"`{BucketFamily.REQUEST_TOKENS}` ends at the model's context length; "
        f"shown is that of {_EXAMPLE_LENGTH} tokens."
    )
    return "\n".join((*lines, "", note, ""))


def _names(dialect: str) -> str:
    lines = [f"## Names in the dialect `{dialect}`", "", "| name | is | differs in |"]
    lines.append("|---|---|---|")
    for metric in CATALOGUE:
        for alias in metric.aliases(dialect):
            theirs, ours = metric.exposed(alias.name), metric.exposed(metric.name)
            lines.append(f"| `{theirs}` | `{ours}` | {_difference(alias)} |")
    return "\n".join((*lines, ""))


def _difference(alias: Alias) -> str:
    parts = [f"label `{ours}` is `{name}`" for ours, name in alias.rename.items()]
    for label, values in alias.values.items():
        if label in alias.drop:
            parts.append(f"only `{label}` {_quoted(values)}")
        else:
            pairs = ", ".join(f"`{ours}` is `{name}`" for ours, name in values.items())
            parts.append(f"`{label}`: {pairs}")
    if alias.drop:
        parts.append(f"without {_quoted(sorted(alias.drop))}")
    return "; ".join(parts)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.stdout.write(document())
