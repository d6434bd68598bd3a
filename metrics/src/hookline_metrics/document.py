"""Renders the catalogue: `python -m hookline_metrics.document > docs/metrics.md`."""

import sys
from collections.abc import Iterable

from hookline_metrics.buckets import BucketFamily, bounds_of
from hookline_metrics.catalogue import CATALOGUE, DIALECTS
from hookline_metrics.dialects import NOT_APPLICABLE
from hookline_metrics.metric import COMMON_LABELS, OWN_DIALECT, Alias, Metric, Scope

_EXAMPLE_LENGTH = 32768

_REFINED = (
    BucketFamily.TIME_TO_FIRST_TOKEN,
    BucketFamily.INTER_TOKEN_LATENCY,
    BucketFamily.SGLANG_TTFT,
    BucketFamily.SGLANG_INTER_TOKEN,
)

_HEAD = f"""\
# Metrics

Made from the catalogue in `metrics/src/hookline_metrics/` by
`python -m hookline_metrics.document > docs/metrics.md`; do not edit by hand.

Every series of an engine has the labels \
{" and ".join(f"`{name}`" for name in COMMON_LABELS)} in addition to its own.
An engine's series exist from its start, so they read 0 before the first event. Only
series with label values that are not known in advance appear at their first event; such
a label takes a bounded number of values, and further ones become `other`. Gauges fall
to their idle values when their engine stops or fails; those of an engine that leaves
while others serve disappear. QUEUED, SCHEDULED, PREEMPTED and
NEW_TOKENS are the engine's events, on the engine's clock.

On pages in Prometheus' protobuf format each histogram is also a native one, with finer
buckets: [dashboards.md](dashboards.md#native-histograms).

`hookline metrics list`, `describe NAME` and `diff A B` print the catalogue on
the command line; `LLM.get_metrics()` returns the values offline.
[deviations.md](deviations.md) says how values under other engines' names differ from
those of the engines themselves.

## What may change

The name, labels, unit and meaning of a *stable* metric do not change. Before removal a
metric is *deprecated* in a version X.Y: its help text has a notice and names the
replacement. From X.(Y+1) on it is hidden, unless
`--show-hidden-metrics-for-version=X.Y` is set; X.(Y+2) may remove it.
*Experimental* metrics may change in any version. Bucket bounds may be refined; set your
own with `--histogram-buckets`.
"""


def document() -> str:
    """Returns the page as Markdown."""
    own = [_section(metric) for metric in CATALOGUE if metric.is_own]
    parts = [_HEAD, *own, _buckets()]
    parts.extend(_names(dialect) for dialect in DIALECTS if dialect != OWN_DIALECT)
    return "\n".join(parts)


def _section(metric: Metric) -> str:
    lines = "\n".join(f"- {fact}" for fact in _facts(metric))
    return f"## `{metric.exposed(metric.name)}`\n\n{metric.help}\n\n{lines}\n"


def _facts(metric: Metric) -> Iterable[str]:
    age = f"{metric.stability} since {metric.since}"
    yield f"{metric.kind}, unit `{metric.unit}`, {age}"
    if metric.scope is Scope.FRONT_END:
        yield "reported by the front end, without the engine's labels"
    if metric.labels:
        yield f"labels: {'; '.join(_labels(metric))}"
    if metric.buckets:
        yield f"buckets: `{metric.buckets}`"
    if metric.feature:
        yield f"requires `--{metric.feature}`{metric.feature.note}"
    if metric.replaced_by:
        yield f"use `{metric.replaced_by}` instead"


def _labels(metric: Metric) -> Iterable[str]:
    for label in metric.labels:
        values = [f"`{value}`" for value in label.values or label.known]
        if label.known:
            values.append("and others")
        listed = f" ({', '.join(values)})" if values else ""
        yield f"`{label.name}`{listed}"


def _buckets() -> str:
    lines = ["## Buckets", "", "| family | upper bounds |", "|---|---|"]
    for family in BucketFamily:
        bounds = " ".join(f"{bound:g}" for bound in bounds_of(family, _EXAMPLE_LENGTH))
        lines.append(f"| `{family}` | {bounds} |")
    note = (
        f"`{BucketFamily.REQUEST_TOKENS}` ends at the model's context length, "
        f"here {_EXAMPLE_LENGTH} tokens. {_quoted(_REFINED)} have all bounds of vLLM "
        "or SGLang and further ones: from 0.5 ms to 60 s no bucket ends above twice "
        "its start."
    )
    return "\n".join((*lines, "", note, ""))


def _names(dialect: str) -> str:
    named = [
        (metric, alias) for metric in CATALOGUE for alias in metric.aliases(dialect)
    ]
    shown = [each for each in named if each[1].hidden_since is None]
    hidden = [each for each in named if each[1].hidden_since is not None]
    lines = [f"## Names in the dialect `{dialect}`", "", *_table(shown)]
    if hidden:
        lines += ["", f"### Hidden names of `{dialect}`", ""]
        lines += ["Show them with `--show-hidden-metrics-for-version 0.0`.", ""]
        lines += _table(hidden)
    lines += ["", f"### Names of `{dialect}` that do not apply", ""]
    lines += ["| name | reason |", "|---|---|"]
    reasons = NOT_APPLICABLE.get(dialect, {})
    lines += [f"| `{name}` | {reason} |" for name, reason in reasons.items()]
    return "\n".join((*lines, ""))


def _table(aliases: Iterable[tuple[Metric, Alias]]) -> Iterable[str]:
    yield "| name | corresponds to | differences |"
    yield "|---|---|---|"
    for metric, alias in aliases:
        ours = metric.help
        if metric.is_own:
            ours = f"`{metric.exposed(metric.name)}`"
        yield f"| `{metric.exposed(alias.name)}` | {ours} | {difference(alias)} |"


def difference(alias: Alias) -> str:
    """Says how an alias's labels, buckets, unit and kind differ from its metric's."""
    parts = [f"label `{ours}` is `{name}`" for ours, name in alias.rename.items()]
    for label, values in alias.values.items():
        if label in alias.drop:
            parts.append(f"only `{label}` {_quoted(values)}")
        else:
            pairs = ", ".join(f"`{ours}` is `{name}`" for ours, name in values.items())
            parts.append(f"`{label}`: {pairs}")
    for label, contained in alias.without.items():
        parts.append(f"without values of `{label}` that contain {_quoted(contained)}")
    if gone := sorted(alias.drop - set(alias.values)):
        parts.append(f"without {_quoted(gone)}")
    if alias.add:
        pairs = ", ".join(f"`{name}={value}`" for name, value in alias.add.items())
        parts.append(f"always {pairs}")
    if alias.buckets:
        parts.append(f"buckets `{alias.buckets}`")
    if alias.scale != 1:
        parts.append(f"{alias.scale:g} times the value")
    if alias.kind:
        parts.append(f"a {alias.kind}")
    return "; ".join(parts)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.stdout.write(document())
