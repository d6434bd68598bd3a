"""Dashboard and rules as a page of documentation."""

from collections.abc import Iterable, Iterator

from hookline.metrics.metric import Metric
from hookline_dashboards.description import metrics_of
from hookline_dashboards.expressions import Names
from hookline_dashboards.panel import Row
from hookline_dashboards.rows import NOT_SHOWN
from hookline_dashboards.rule import Alert, Group, Recording
from hookline_dashboards.service_alerts import SLO_TARGET

_HEAD = """\
# Dashboard and alerts

Made from the metrics' catalogue by `python -m hookline_dashboards`; do not edit by
hand. The panels, rules and alerts are data in `core/src/hookline/dashboards/`.

## Prometheus

[`deploy/prometheus/`](../deploy/prometheus/) has a configuration with all rules. Put
your servers in the place of `localhost:8000` and start it:

```sh
prometheus --config.file=deploy/prometheus/prometheus.yml
```

In a Prometheus of your own, add `recording_rules.yml` and `alert_rules.yml` to
`rule_files`, and scrape the servers in a job of the name `hookline`, which
HooklineTargetDown looks for; where `--metrics-token` asks for a token, give it as
`authorization`. The rules read the metrics' names in the dialect `hookline`;
`--metrics-dialect` has to have it, as it has by default. This shows each alert firing
and quiet:

```sh
promtool test rules deploy/prometheus/alert_tests.yml
```

## Grafana

Dashboards, New, Import:
[`deploy/grafana/hookline.json`](../deploy/grafana/hookline.json). It needs Grafana 11
or newer and a data source of the kind Prometheus, whose scrape interval is that of
Prometheus's configuration: all rates are over `$__rate_interval`. The variables on top
choose models, servers and engines. Closed rows ask Prometheus nothing until they are
opened.
"""

_ALERTS = f"""\
Objectives are what `--slo` or a request promises; the alerts take it that
{SLO_TARGET:.0%} of the requests are to meet theirs. To tell people, give Prometheus an
Alertmanager and route by the label `severity`: critical now, warning by day.
"""


def document(rows: Iterable[Row], names: Names, groups: Iterable[Group]) -> str:
    """The whole page."""
    rules = [rule for group in groups for rule in group.rules]
    alerts = [rule for rule in rules if isinstance(rule, Alert)]
    recordings = [rule for rule in rules if isinstance(rule, Recording)]
    lines = [_HEAD, "## Panels", ""]
    for row in rows:
        lines.extend(_row(row, names))
    lines.extend(("### Metrics without a panel", ""))
    lines.extend(f"- `{name}`: {reason}" for name, reason in NOT_SHOWN.items())
    lines.extend(("", "## Alerts", "", _ALERTS))
    for alert in alerts:
        lines.extend(_alert(alert))
    lines.extend(("## Recorded series", ""))
    lines.extend(("| series | is |", "|---|---|"))
    lines.extend(f"| `{rule.name}` | {_code(rule)} |" for rule in recordings)
    return "\n".join((*lines, ""))


def _row(row: Row, names: Names) -> Iterator[str]:
    yield from (f"### {row.title}", "", "| panel | of |", "|---|---|")
    for panel in row.panels:
        told = ", ".join(map(_metric, metrics_of(panel, names)))
        yield f"| {panel.title} | {told} |"
    yield ""


def _metric(metric: Metric) -> str:
    name = f"`{metric.exposed(metric.name)}`"
    return f"{name} (with `--{metric.feature}`)" if metric.feature else name


def _alert(alert: Alert) -> Iterator[str]:
    wait = "at once" if alert.wait == "0s" else f"after {alert.wait}"
    yield from (f"### {alert.name}", "", f"{alert.severity.capitalize()}, {wait}.", "")
    yield from ("```promql", alert.expression, "```", "", alert.next_step, "")


def _code(rule: Recording) -> str:
    return f"`{' '.join(rule.expression.split())}`"
