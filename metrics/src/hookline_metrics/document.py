"""Renders the catalogue: `python -m hookline_metrics.document > docs/metrics.md`."""

import sys
from collections.abc import Iterable

from hookline_metrics.buckets import BucketFamily, bounds_of
from hookline_metrics.catalogue import CATALOGUE
from hookline_metrics.metric import COMMON_LABELS, Metric, Scope, Stability

_EXAMPLE_LENGTH = 32768

_REFINED = (BucketFamily.TIME_TO_FIRST_TOKEN, BucketFamily.INTER_TOKEN_LATENCY)

_FIRST_VERSION = "0.1"

_HEAD = f"""\
# Metrics

Made from the catalogue in `metrics/src/hookline_metrics/` by
`python -m hookline_metrics.document > docs/metrics.md`; do not edit by hand.

The names here are Hookline's own. [deviations.md](deviations.md) lists those of vLLM
and SGLang, and says how their values differ from those of the engines themselves.
`hookline metrics list`, `describe NAME` and `diff A B` print the catalogue on the
command line; `LLM.get_metrics()` returns the values offline.

Every series of an engine has the labels \
{" and ".join(f"`{name}`" for name in COMMON_LABELS)} in addition to its own; those
marked *front-end* have the first alone. A series of what the engine
[tells](engines.md#what-one-sees) exists, and reads 0, from its start; only one with a
label value that is not known in advance appears at its first event.
Such a label takes a bounded number of values, and further ones become `other`. Gauges
fall to their idle values when their engine stops or fails; those of an engine that
leaves while others serve disappear. QUEUED, SCHEDULED, PREEMPTED and NEW_TOKENS are
the engine's events, on the engine's clock. On pages in Prometheus' protobuf format
each histogram is also a native one, with finer buckets:
[dashboards.md](dashboards.md#native-histograms).

## What may change

A metric is *stable* since {_FIRST_VERSION} unless its line says otherwise: its name,
labels, unit and meaning do not change. Before removal it is *deprecated* in a version
X.Y: its help text has a notice and names the replacement. From X.(Y+1) on it is
hidden, unless `--show-hidden-metrics-for-version=X.Y` is set; X.(Y+2) may remove it.
*Experimental* metrics may change in any version. Bucket bounds may be refined; set
your own with `--histogram-buckets`.
"""


def document() -> str:
    """Returns the page as Markdown."""
    own = [_section(metric) for metric in CATALOGUE if metric.is_own]
    return "\n".join((_HEAD, *own, _buckets()))


def _section(metric: Metric) -> str:
    facts = "; ".join(_facts(metric))
    return f"## `{metric.exposed(metric.name)}`\n\n{metric.help}\n\n_{facts}_\n"


def _facts(metric: Metric) -> Iterable[str]:
    yield str(metric.kind) if metric.unit == "1" else f"{metric.kind}, `{metric.unit}`"
    if (metric.stability, metric.since) != (Stability.STABLE, _FIRST_VERSION):
        is_first = metric.since == _FIRST_VERSION
        yield f"{metric.stability}{'' if is_first else f' since {metric.since}'}"
    if metric.scope is Scope.FRONT_END:
        yield "front-end"
    if metric.labels:
        yield f"labels {', '.join(_labels(metric))}"
    if metric.buckets:
        yield f"buckets `{metric.buckets}`"
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
    """Returns the bounds of Hookline's own histograms."""
    used = {metric.buckets for metric in CATALOGUE if metric.is_own}
    lines = ["## Buckets", "", "Upper bounds by family:", ""]
    for family in BucketFamily:
        if family in used:
            bounds = ",".join(
                f"{each:g}" for each in bounds_of(family, _EXAMPLE_LENGTH)
            )
            lines.append(f"- `{family}`: {bounds}")
    note = (
        f"`{BucketFamily.REQUEST_TOKENS}` ends at the model's context length, "
        f"here {_EXAMPLE_LENGTH} tokens. {_quoted(_REFINED)} have all bounds of vLLM "
        "and further ones: from 0.5 ms to 60 s no bucket ends above twice its start. "
        "`hookline metrics describe NAME` shows the bounds under other dialects' names."
    )
    return "\n".join((*lines, "", note, ""))


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.stdout.write(document())
